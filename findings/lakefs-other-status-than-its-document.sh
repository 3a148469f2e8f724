#!/usr/bin/env bash
# lakeFS's OpenAPI document gives updateObjectUserMetadata one success, 201 "User metadata updated". The server
# answers 204 without a body, and lakectl fails after any other status, so a server that is made by the document
# does not work with `lakectl fs update-metadata`. The SDK for Python takes both.
# Seen with lakeFS 1.84.0 and lakectl 1.84.0, built from their Go module (some minutes), and lakefs-sdk 1.88.0.
set -euo pipefail
version=v1.84.0
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
mkdir home
module=$(go mod download -json "github.com/treeverse/lakefs@$version" | python3 -c 'import json, sys; print(json.load(sys.stdin)["Dir"])')
for program in lakefs lakectl; do go -C "$module" build -o "$folder/$program" "./cmd/$program"; done
document=$module/api/swagger.yml
python3 -m venv venv
venv/bin/pip install -q lakefs-sdk==1.88.0

cat >lakefs.yaml <<YAML
listen_address: 127.0.0.1:18777
database: {type: local, local: {path: $folder/database}}
auth: {encrypt: {secret_key: 0123456789abcdef0123456789abcdef}}
blockstore: {type: local, local: {path: $folder/data}}
stats: {enabled: false}
YAML
HOME=$folder/home ./lakefs --config lakefs.yaml run >server.log 2>&1 &
server=$!
api=http://127.0.0.1:18777/api/v1
for _ in $(seq 100); do curl -sf "$api/healthcheck" && break || sleep 0.3; done
keys='{"access_key_id": "AKIAJEXAMPLEEXAMPLEQ", "secret_access_key": "wJalrXUtnFEMIexampleexampleEXAMPLEKEY0123"}'
curl -sf -o /dev/null -H 'Content-Type: application/json' -d "{\"username\": \"admin\", \"key\": $keys}" "$api/setup_lakefs"
echo "{\"credentials\": $keys, \"server\": {\"endpoint_url\": \"$api\"}}" >lakectl.yaml
lakectl() { HOME=$folder/home ./lakectl -c lakectl.yaml "$@"; }
lakectl repo create lakefs://demo local://demo >/dev/null
echo 1 >file
lakectl fs upload -s file lakefs://demo/main/file >/dev/null

documented=$(sed -n '/operationId: updateObjectUserMetadata/,/default:/p' "$document" | grep -o '2[0-9][0-9]')
answered=$(curl -s -o body -w '%{http_code}' -X PUT -u AKIAJEXAMPLEEXAMPLEQ:wJalrXUtnFEMIexampleexampleEXAMPLEKEY0123 \
  -H 'Content-Type: application/json' -d '{"set": {"k": "v"}}' \
  "$api/repositories/demo/branches/main/objects/stat/user_metadata?path=file")
echo "documented: $documented, answered: $answered with $(wc -c <body) bytes"
lakectl fs update-metadata lakefs://demo/main/file --metadata k=w
lakectl fs stat lakefs://demo/main/file | grep 'k *= w'
venv/bin/python - "$api" <<'PYTHON'
import sys

import lakefs_sdk

place = lakefs_sdk.Configuration(sys.argv[1], username="AKIAJEXAMPLEEXAMPLEQ", password="wJalrXUtnFEMIexampleexampleEXAMPLEKEY0123")
api = lakefs_sdk.ExperimentalApi(lakefs_sdk.ApiClient(place))
change = lakefs_sdk.UpdateObjectUserMetadata(set={"k": "x"})
found = api.update_object_user_metadata_with_http_info("demo", "main", "file", change)
print("lakefs-sdk takes", found.status_code)
assert found.status_code == 204
PYTHON
[ "$documented" = 201 ] && [ "$answered" = 204 ] || { echo "lakeFS has changed"; exit 1; }
