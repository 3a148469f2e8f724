"""The operations of lakeFS's document that are answered by 501, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

REFUSED: Final[Mapping[str, str]] = {
    "users, groups and policies: access is that of the bucket": """
        addGroupMembership attachPolicyToGroup attachPolicyToUser createCredentials createGroup
        createPolicy createUser createUserExternalPrincipal deleteCredentials deleteGroup
        deleteGroupMembership deletePolicy deleteUser deleteUserExternalPrincipal
        detachPolicyFromGroup detachPolicyFromUser externalPrincipalLogin getCredentials
        getExternalPrincipal getGroup getPolicy getUser listGroupMembers listGroupPolicies
        listGroups listPolicies listUserCredentials listUserExternalPrincipals listUserGroups
        listUserPolicies listUsers stsLogin updatePolicy""",
    "pull requests": """
        createPullRequest getPullRequest listPullRequests mergePullRequest updatePullRequest""",
    "garbage collection: see `lakecli gc`": """
        deleteGCRules getGCRules getGarbageCollectionConfig internalDeleteGarbageCollectionRules
        internalGetGarbageCollectionRules internalSetGarbageCollectionRules
        prepareGarbageCollectionCommits prepareGarbageCollectionCommitsAsync
        prepareGarbageCollectionCommitsStatus prepareGarbageCollectionUncommitted setGCRules
        setGarbageCollectionRulesPreflight""",
    "uploads in parts by presigned URLs: the S3 endpoint takes parts": """
        abortPresignMultipartUpload completePresignMultipartUpload createPresignMultipartUpload
        uploadPart uploadPartCopy""",
    "metadata of repositories": "deleteRepositoryMetadata setRepositoryMetadata",
    "trees of lakeFS's Spark client": "getMetaRange getMetadataObject getRange",
    "commits and symlinks of lakeFS's jobs": "createCommitRecord createSymlinkFile",
    "actions: hooks are those of this machine": "getRun getRunHookOutput listRunHooks",
    "questions of lakeFS's pages": """
        createBranchProtectionRulePreflight getUnderlyingProperties uploadObjectPreflight""",
    "old forms of getBranchProtectionRules and setBranchProtectionRules": """
        internalCreateBranchProtectionRule internalDeleteBranchProtectionRule
        internalGetBranchProtectionRules""",
    "imports that run cannot be stopped": "importCancel",
    "the server itself": "getUsageReportSummary setup setupCommPrefs",
}
"""Names of operations, separated by white space, by the reason for which they are refused."""
