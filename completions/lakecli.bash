# bash completion for lakecli -*- shell-script -*-
# Written by `python -m lakecli.cli.manual.generate` from the command tree; do not edit.

# What may follow the words $1, in REPLY.
__lakecli_words() {
    case $1 in
    '') REPLY='annotate approve bisect blame branch branch-protect cat-sst check check-ignore checkout cherry-pick clone commit completion config diff doctor export fetch find-merge-base fs fsck gc help import local log merge op plugin policy publish pull push quickstart redo reflog refs-dump refs-restore repo restore rev-parse run run serve show status tag undo use version' ;;
    'bisect') REPLY='bad good log new old reset run skip start view' ;;
    'branch') REPLY='create delete list rename reset revert show' ;;
    'branch-protect') REPLY='add delete list' ;;
    'check') REPLY='list run' ;;
    'config') REPLY='get list set unset' ;;
    'fs') REPLY='cat cp download du find ls mv presign rm stage stat update-metadata upload' ;;
    'gc') REPLY='delete-config get-config run set-config status undo' ;;
    'local') REPLY='checkout clone commit diff init list pull status' ;;
    'op') REPLY='compact log redo restore show undo' ;;
    'plugin') REPLY='list' ;;
    'policy') REPLY='edit log set show' ;;
    'repo') REPLY='create delete list' ;;
    'run') REPLY='abort list resume show' ;;
    'show') REPLY='commit' ;;
    'tag') REPLY='create delete list show' ;;
    *) return 1 ;;
    esac
}

# The options of the command $1, in REPLY.
__lakecli_options() {
    case $1 in
    'annotate') REPLY='--at-op --first-parent -r --recursive' ;;
    'approve') REPLY='--for' ;;
    'bisect bad') REPLY='' ;;
    'bisect good') REPLY='' ;;
    'bisect log') REPLY='' ;;
    'bisect new') REPLY='' ;;
    'bisect old') REPLY='' ;;
    'bisect reset') REPLY='' ;;
    'bisect run') REPLY='' ;;
    'bisect skip') REPLY='' ;;
    'bisect start') REPLY='' ;;
    'bisect view') REPLY='' ;;
    'blame') REPLY='--at-op --first-parent -r --recursive' ;;
    'branch create') REPLY='-s --source' ;;
    'branch delete') REPLY='-y --yes' ;;
    'branch list') REPLY='--after --amount --at-op --long --prefix -v' ;;
    'branch rename') REPLY='' ;;
    'branch reset') REPLY='--force-with-lease --object --prefix --to -y --yes' ;;
    'branch revert') REPLY='--allow-empty --allow-empty-commit -m --parent-number --table-logs --take -y --yes' ;;
    'branch show') REPLY='--at-op' ;;
    'branch-protect add') REPLY='' ;;
    'branch-protect delete') REPLY='' ;;
    'branch-protect list') REPLY='--amount' ;;
    'cat-sst') REPLY='--amount -f --file' ;;
    'check list') REPLY='--prefix' ;;
    'check run') REPLY='--prefix' ;;
    'check-ignore') REPLY='--why' ;;
    'checkout') REPLY='-b --create -f --force --no-progress -p --parallelism' ;;
    'cherry-pick') REPLY='--allow-empty --allow-empty-commit -m --parent-number --table-logs --take' ;;
    'clone') REPLY='--conf -d --default-branch --engine --from-lakefs --master --rebuild --refs --take-over' ;;
    'commit') REPLY='--allow-empty --allow-empty-commit --allow-empty-message -m --message --meta --no-verify --path --prefix --strategy' ;;
    'completion') REPLY='' ;;
    'config get') REPLY='' ;;
    'config list') REPLY='--show-origin' ;;
    'config set') REPLY='' ;;
    'config unset') REPLY='' ;;
    'diff') REPLY='--at-op --conf --depth --engine --exit-code --master --name-only --null --prefix --stat --two-way -z' ;;
    'doctor') REPLY='--again' ;;
    'export') REPLY='--conf --dry-run --engine --master --no-progress --no-success --no-verify -p --parallelism --since --symlink --to-lakefs-import' ;;
    'fetch') REPLY='' ;;
    'find-merge-base') REPLY='--at-op' ;;
    'fs cat') REPLY='--at-op --files-from --null --verify -z' ;;
    'fs cp') REPLY='--content-type --delete --meta --no-progress -p --parallelism -r --recursive' ;;
    'fs download') REPLY='--at-op --delete --dry-run --exclude --files-from --include --max-delete --no-clobber --no-progress --null -p --parallelism --part-size -r --recursive -z' ;;
    'fs du') REPLY='--at-op --depth --shared' ;;
    'fs find') REPLY='--at-op --max-size --min-size --name --null --since --until -z' ;;
    'fs ls') REPLY='--after --amount --at-op -r --recursive --summarize' ;;
    'fs mv') REPLY='--no-progress -p --parallelism -r --recursive' ;;
    'fs presign') REPLY='--check --count --expires --files-from --format --inline --manifest --max-size -n --null --page --put -r --recursive --script --signed-by --title -z' ;;
    'fs rm') REPLY='--dry-run --files-from --must-exist --null -r --recursive -z' ;;
    'fs stage') REPLY='--arrived --checksum --content-type --dry-run --incoming --location --meta --mtime --size' ;;
    'fs stat') REPLY='--at-op --expires --files-from --null --pre-sign -z' ;;
    'fs update-metadata') REPLY='--content-type --meta --metadata' ;;
    'fs upload') REPLY='--content-type --delete --dry-run --exclude --files-from --follow --include --max-delete --meta --no-progress --null -p --parallelism -r --recursive -s --skip --source -z' ;;
    'fsck') REPLY='--conf --data --dry-run --engine --external --from --master --repair --sample' ;;
    'gc delete-config') REPLY='' ;;
    'gc get-config') REPLY='-p' ;;
    'gc run') REPLY='--accept-restored --conf --dry-run --engine --force-shared --grace --lakefs-stopped --master --no-progress -p --parallelism -y --yes' ;;
    'gc set-config') REPLY='-f --filename' ;;
    'gc status') REPLY='' ;;
    'gc undo') REPLY='--force' ;;
    'import') REPLY='--allow-empty --allow-empty-commit --allow-empty-message --conf --copy --dry-run --engine --follow --from -m --manifest --master --message --meta --mode --no-progress -p --parallelism --pin-versions --skip --to --verify' ;;
    'local checkout') REPLY='--all --follow --no-progress -p --parallelism -r --ref --skip -y --yes' ;;
    'local clone') REPLY='--exclude --gitignore --include --no-progress -p --parallelism' ;;
    'local commit') REPLY='--allow-empty-message --exclude --follow --include -m --message --meta --no-progress --ours -p --parallelism --skip -y --yes' ;;
    'local diff') REPLY='--exclude --exit-code --follow --include --skip' ;;
    'local init') REPLY='--exclude --force --gitignore --include' ;;
    'local list') REPLY='--prune' ;;
    'local pull') REPLY='--follow --force --no-progress -p --parallelism --skip' ;;
    'local status') REPLY='--exclude --follow --include -l --local --skip' ;;
    'log') REPLY='--after --amount --at-op --author --dot --first-parent --format --graph --grep --limit -n --no-merges --objects --oneline --prefixes --show-meta-range-id --since --stop-at --until' ;;
    'merge') REPLY='--allow-empty --conflicts --depth --dry-run --force -m --message --meta --no-verify --plan --squash --stat --strategy --table-logs --take' ;;
    'op compact') REPLY='' ;;
    'op log') REPLY='--amount' ;;
    'op redo') REPLY='' ;;
    'op restore') REPLY='--remote -y --yes' ;;
    'op show') REPLY='--amount' ;;
    'op undo') REPLY='--remote' ;;
    'plugin list') REPLY='' ;;
    'policy edit') REPLY='-y --yes' ;;
    'policy log') REPLY='--amount' ;;
    'policy set') REPLY='-y --yes' ;;
    'policy show') REPLY='--for --print-iam' ;;
    'publish') REPLY='--allow-empty --check -m --message --meta --no-verify --strategy --table-logs --take' ;;
    'pull') REPLY='--dry-run --ff-only -m --message --strategy --table-logs --take' ;;
    'push') REPLY='--all -d --delete --dry-run --force-with-lease --no-verify' ;;
    'quickstart') REPLY='' ;;
    'redo') REPLY='' ;;
    'reflog') REPLY='--after --amount' ;;
    'refs-dump') REPLY='--leave-out -o --output --push-first' ;;
    'refs-restore') REPLY='-m --manifest --update' ;;
    'repo create') REPLY='-d --default-branch --range-entries' ;;
    'repo delete') REPLY='-y --yes' ;;
    'repo list') REPLY='--after --amount --prefix' ;;
    'restore') REPLY='--from --no-progress -p --parallelism -s --source' ;;
    'rev-parse') REPLY='--at-op --stdin' ;;
    'run') REPLY='--branch --check --keep -m --message --no-verify' ;;
    'run abort') REPLY='' ;;
    'run list') REPLY='' ;;
    'run resume') REPLY='--no-verify' ;;
    'run show') REPLY='' ;;
    'serve') REPLY='--access-key --committed --host --open --port --print --read-only --redirect --tls-cert --tls-key' ;;
    'show commit') REPLY='--at-op --depth --show-meta-range-id --stat' ;;
    'status') REPLY='--at-op' ;;
    'tag create') REPLY='-f --force' ;;
    'tag delete') REPLY='-y --yes' ;;
    'tag list') REPLY='--after --amount --at-op --prefix' ;;
    'tag show') REPLY='--at-op' ;;
    'undo') REPLY='--remote' ;;
    'use') REPLY='--unset' ;;
    'version') REPLY='' ;;
    'help') REPLY='' ;;
    *) REPLY= ;;
    esac
    REPLY+=' --base-uri -c --config -h --help --json --log-format --log-level --log-output --no-color --no-pager --no-trunc -q --quiet --verbose'
}

# What completes the value of option $2 of the command $1, in REPLY; fails where it takes none.
__lakecli_value() {
    case "$1 $2" in
    'annotate --at-op') REPLY='operation' ;;
    'approve --for') REPLY='ref' ;;
    'blame --at-op') REPLY='operation' ;;
    'branch create -s') REPLY='ref' ;;
    'branch create --source') REPLY='ref' ;;
    'branch list --after') REPLY='nothing' ;;
    'branch list --amount') REPLY='nothing' ;;
    'branch list --at-op') REPLY='operation' ;;
    'branch list --prefix') REPLY='nothing' ;;
    'branch reset --force-with-lease') REPLY='nothing' ;;
    'branch reset --object') REPLY='nothing' ;;
    'branch reset --prefix') REPLY='nothing' ;;
    'branch reset --to') REPLY='ref' ;;
    'branch revert -m') REPLY='nothing' ;;
    'branch revert --parent-number') REPLY='nothing' ;;
    'branch revert --take') REPLY='nothing' ;;
    'branch show --at-op') REPLY='operation' ;;
    'branch-protect list --amount') REPLY='nothing' ;;
    'cat-sst --amount') REPLY='nothing' ;;
    'cat-sst -f') REPLY='file' ;;
    'cat-sst --file') REPLY='file' ;;
    'check list --prefix') REPLY='nothing' ;;
    'check run --prefix') REPLY='nothing' ;;
    'checkout -p') REPLY='nothing' ;;
    'checkout --parallelism') REPLY='nothing' ;;
    'cherry-pick -m') REPLY='nothing' ;;
    'cherry-pick --parent-number') REPLY='nothing' ;;
    'cherry-pick --take') REPLY='nothing' ;;
    'clone --conf') REPLY='nothing' ;;
    'clone -d') REPLY='nothing' ;;
    'clone --default-branch') REPLY='nothing' ;;
    'clone --engine') REPLY='=auto local spark' ;;
    'clone --master') REPLY='nothing' ;;
    'clone --refs') REPLY='file' ;;
    'commit -m') REPLY='nothing' ;;
    'commit --message') REPLY='nothing' ;;
    'commit --meta') REPLY='nothing' ;;
    'commit --path') REPLY='nothing' ;;
    'commit --prefix') REPLY='nothing' ;;
    'commit --strategy') REPLY='=source-wins dest-wins' ;;
    'diff --at-op') REPLY='operation' ;;
    'diff --conf') REPLY='nothing' ;;
    'diff --depth') REPLY='nothing' ;;
    'diff --engine') REPLY='=auto local spark' ;;
    'diff --master') REPLY='nothing' ;;
    'diff --prefix') REPLY='nothing' ;;
    'export --conf') REPLY='nothing' ;;
    'export --engine') REPLY='=auto local spark' ;;
    'export --master') REPLY='nothing' ;;
    'export -p') REPLY='nothing' ;;
    'export --parallelism') REPLY='nothing' ;;
    'export --since') REPLY='nothing' ;;
    'find-merge-base --at-op') REPLY='operation' ;;
    'fs cat --at-op') REPLY='operation' ;;
    'fs cat --files-from') REPLY='file' ;;
    'fs cp --content-type') REPLY='nothing' ;;
    'fs cp --meta') REPLY='nothing' ;;
    'fs cp -p') REPLY='nothing' ;;
    'fs cp --parallelism') REPLY='nothing' ;;
    'fs download --at-op') REPLY='operation' ;;
    'fs download --exclude') REPLY='nothing' ;;
    'fs download --files-from') REPLY='file' ;;
    'fs download --include') REPLY='nothing' ;;
    'fs download --max-delete') REPLY='nothing' ;;
    'fs download -p') REPLY='nothing' ;;
    'fs download --parallelism') REPLY='nothing' ;;
    'fs download --part-size') REPLY='nothing' ;;
    'fs du --at-op') REPLY='operation' ;;
    'fs du --depth') REPLY='nothing' ;;
    'fs find --at-op') REPLY='operation' ;;
    'fs find --max-size') REPLY='nothing' ;;
    'fs find --min-size') REPLY='nothing' ;;
    'fs find --name') REPLY='nothing' ;;
    'fs find --since') REPLY='nothing' ;;
    'fs find --until') REPLY='nothing' ;;
    'fs ls --after') REPLY='nothing' ;;
    'fs ls --amount') REPLY='nothing' ;;
    'fs ls --at-op') REPLY='operation' ;;
    'fs mv -p') REPLY='nothing' ;;
    'fs mv --parallelism') REPLY='nothing' ;;
    'fs presign --check') REPLY='file' ;;
    'fs presign --count') REPLY='nothing' ;;
    'fs presign --expires') REPLY='nothing' ;;
    'fs presign --files-from') REPLY='file' ;;
    'fs presign --format') REPLY='=json csv html' ;;
    'fs presign --manifest') REPLY='file' ;;
    'fs presign --max-size') REPLY='nothing' ;;
    'fs presign -n') REPLY='nothing' ;;
    'fs presign --page') REPLY='file' ;;
    'fs presign --script') REPLY='file' ;;
    'fs presign --title') REPLY='nothing' ;;
    'fs rm --files-from') REPLY='file' ;;
    'fs stage --checksum') REPLY='nothing' ;;
    'fs stage --content-type') REPLY='nothing' ;;
    'fs stage --incoming') REPLY='nothing' ;;
    'fs stage --location') REPLY='nothing' ;;
    'fs stage --meta') REPLY='nothing' ;;
    'fs stage --mtime') REPLY='nothing' ;;
    'fs stage --size') REPLY='nothing' ;;
    'fs stat --at-op') REPLY='operation' ;;
    'fs stat --expires') REPLY='nothing' ;;
    'fs stat --files-from') REPLY='file' ;;
    'fs update-metadata --content-type') REPLY='nothing' ;;
    'fs update-metadata --meta') REPLY='nothing' ;;
    'fs update-metadata --metadata') REPLY='nothing' ;;
    'fs upload --content-type') REPLY='nothing' ;;
    'fs upload --exclude') REPLY='nothing' ;;
    'fs upload --files-from') REPLY='file' ;;
    'fs upload --include') REPLY='nothing' ;;
    'fs upload --max-delete') REPLY='nothing' ;;
    'fs upload --meta') REPLY='nothing' ;;
    'fs upload -p') REPLY='nothing' ;;
    'fs upload --parallelism') REPLY='nothing' ;;
    'fs upload -s') REPLY='file' ;;
    'fs upload --source') REPLY='file' ;;
    'fsck --conf') REPLY='nothing' ;;
    'fsck --engine') REPLY='=auto local spark' ;;
    'fsck --from') REPLY='nothing' ;;
    'fsck --master') REPLY='nothing' ;;
    'fsck --sample') REPLY='nothing' ;;
    'gc run --conf') REPLY='nothing' ;;
    'gc run --engine') REPLY='=auto local spark' ;;
    'gc run --grace') REPLY='nothing' ;;
    'gc run --master') REPLY='nothing' ;;
    'gc run -p') REPLY='nothing' ;;
    'gc run --parallelism') REPLY='nothing' ;;
    'gc set-config -f') REPLY='file' ;;
    'gc set-config --filename') REPLY='file' ;;
    'import --conf') REPLY='nothing' ;;
    'import --engine') REPLY='=auto local spark' ;;
    'import --from') REPLY='directory' ;;
    'import -m') REPLY='nothing' ;;
    'import --master') REPLY='nothing' ;;
    'import --message') REPLY='nothing' ;;
    'import --meta') REPLY='nothing' ;;
    'import --mode') REPLY='=replace merge' ;;
    'import -p') REPLY='nothing' ;;
    'import --parallelism') REPLY='nothing' ;;
    'import --to') REPLY='path' ;;
    'import --verify') REPLY='=none sample all' ;;
    'local checkout -p') REPLY='nothing' ;;
    'local checkout --parallelism') REPLY='nothing' ;;
    'local checkout -r') REPLY='ref' ;;
    'local checkout --ref') REPLY='ref' ;;
    'local clone --exclude') REPLY='nothing' ;;
    'local clone --include') REPLY='nothing' ;;
    'local clone -p') REPLY='nothing' ;;
    'local clone --parallelism') REPLY='nothing' ;;
    'local commit --exclude') REPLY='nothing' ;;
    'local commit --include') REPLY='nothing' ;;
    'local commit -m') REPLY='nothing' ;;
    'local commit --message') REPLY='nothing' ;;
    'local commit --meta') REPLY='nothing' ;;
    'local commit -p') REPLY='nothing' ;;
    'local commit --parallelism') REPLY='nothing' ;;
    'local diff --exclude') REPLY='nothing' ;;
    'local diff --include') REPLY='nothing' ;;
    'local init --exclude') REPLY='nothing' ;;
    'local init --include') REPLY='nothing' ;;
    'local pull -p') REPLY='nothing' ;;
    'local pull --parallelism') REPLY='nothing' ;;
    'local status --exclude') REPLY='nothing' ;;
    'local status --include') REPLY='nothing' ;;
    'log --after') REPLY='nothing' ;;
    'log --amount') REPLY='nothing' ;;
    'log --at-op') REPLY='operation' ;;
    'log --author') REPLY='nothing' ;;
    'log --format') REPLY='nothing' ;;
    'log --grep') REPLY='nothing' ;;
    'log -n') REPLY='nothing' ;;
    'log --objects') REPLY='nothing' ;;
    'log --prefixes') REPLY='nothing' ;;
    'log --since') REPLY='nothing' ;;
    'log --stop-at') REPLY='nothing' ;;
    'log --until') REPLY='nothing' ;;
    'merge --conflicts') REPLY='file' ;;
    'merge --depth') REPLY='nothing' ;;
    'merge -m') REPLY='nothing' ;;
    'merge --message') REPLY='nothing' ;;
    'merge --meta') REPLY='nothing' ;;
    'merge --plan') REPLY='file' ;;
    'merge --strategy') REPLY='=source-wins dest-wins' ;;
    'merge --take') REPLY='nothing' ;;
    'op log --amount') REPLY='nothing' ;;
    'op show --amount') REPLY='nothing' ;;
    'policy log --amount') REPLY='nothing' ;;
    'policy show --for') REPLY='nothing' ;;
    'policy show --print-iam') REPLY='=aws gcs azure' ;;
    'publish --check') REPLY='nothing' ;;
    'publish -m') REPLY='nothing' ;;
    'publish --message') REPLY='nothing' ;;
    'publish --meta') REPLY='nothing' ;;
    'publish --strategy') REPLY='=source-wins dest-wins' ;;
    'publish --take') REPLY='nothing' ;;
    'pull -m') REPLY='nothing' ;;
    'pull --message') REPLY='nothing' ;;
    'pull --strategy') REPLY='=source-wins dest-wins' ;;
    'pull --take') REPLY='nothing' ;;
    'push --force-with-lease') REPLY='nothing' ;;
    'reflog --after') REPLY='nothing' ;;
    'reflog --amount') REPLY='nothing' ;;
    'refs-dump --leave-out') REPLY='nothing' ;;
    'refs-dump -o') REPLY='file' ;;
    'refs-dump --output') REPLY='file' ;;
    'refs-restore -m') REPLY='file' ;;
    'refs-restore --manifest') REPLY='file' ;;
    'repo create -d') REPLY='nothing' ;;
    'repo create --default-branch') REPLY='nothing' ;;
    'repo create --range-entries') REPLY='nothing' ;;
    'repo list --after') REPLY='nothing' ;;
    'repo list --amount') REPLY='nothing' ;;
    'repo list --prefix') REPLY='nothing' ;;
    'restore --from') REPLY='ref' ;;
    'restore -p') REPLY='nothing' ;;
    'restore --parallelism') REPLY='nothing' ;;
    'restore -s') REPLY='ref' ;;
    'restore --source') REPLY='ref' ;;
    'rev-parse --at-op') REPLY='operation' ;;
    'run --branch') REPLY='nothing' ;;
    'run --check') REPLY='nothing' ;;
    'run --keep') REPLY='=always on-failure never' ;;
    'run -m') REPLY='nothing' ;;
    'run --message') REPLY='nothing' ;;
    'serve --access-key') REPLY='nothing' ;;
    'serve --host') REPLY='nothing' ;;
    'serve --port') REPLY='nothing' ;;
    'serve --print') REPLY='=env aws boto3 duckdb polars spark rclone delta pyarrow obstore s5cmd lakectl' ;;
    'serve --tls-cert') REPLY='file' ;;
    'serve --tls-key') REPLY='file' ;;
    'show commit --at-op') REPLY='operation' ;;
    'show commit --depth') REPLY='nothing' ;;
    'status --at-op') REPLY='operation' ;;
    'tag list --after') REPLY='nothing' ;;
    'tag list --amount') REPLY='nothing' ;;
    'tag list --at-op') REPLY='operation' ;;
    'tag list --prefix') REPLY='nothing' ;;
    'tag show --at-op') REPLY='operation' ;;
    *' --base-uri') REPLY='nothing' ;;
    *' -c') REPLY='file' ;;
    *' --config') REPLY='file' ;;
    *' --log-format') REPLY='nothing' ;;
    *' --log-level') REPLY='nothing' ;;
    *' --log-output') REPLY='nothing' ;;
    *) return 1 ;;
    esac
}

# What completes argument $2 of the command $1, in REPLY.
__lakecli_argument() {
    case "$1 $2" in
    'annotate 1') REPLY='path-or-file@' ;;
    'approve 1') REPLY='ref' ;;
    'bisect bad '*) REPLY='ref' ;;
    'bisect good '*) REPLY='ref' ;;
    'bisect log 1') REPLY='repository' ;;
    'bisect new '*) REPLY='ref' ;;
    'bisect old '*) REPLY='ref' ;;
    'bisect reset 1') REPLY='repository' ;;
    'bisect run '*) REPLY='file' ;;
    'bisect skip '*) REPLY='ref' ;;
    'bisect start 1') REPLY='ref' ;;
    'bisect start '*) REPLY='ref' ;;
    'bisect view 1') REPLY='repository' ;;
    'blame 1') REPLY='path-or-file@' ;;
    'branch create 1') REPLY='branch' ;;
    'branch delete '*) REPLY='branch' ;;
    'branch list 1') REPLY='repository@' ;;
    'branch rename 1') REPLY='branch' ;;
    'branch rename 2') REPLY='nothing' ;;
    'branch reset 1') REPLY='branch' ;;
    'branch revert 1') REPLY='branch' ;;
    'branch revert '*) REPLY='ref' ;;
    'branch show 1') REPLY='branch@' ;;
    'branch-protect add 1') REPLY='repository' ;;
    'branch-protect add 2') REPLY='nothing' ;;
    'branch-protect delete 1') REPLY='repository' ;;
    'branch-protect delete 2') REPLY='nothing' ;;
    'branch-protect list 1') REPLY='repository' ;;
    'check list 1') REPLY='ref' ;;
    'check run 1') REPLY='nothing' ;;
    'check run 2') REPLY='ref' ;;
    'check-ignore '*) REPLY='file' ;;
    'checkout 1') REPLY='ref' ;;
    'cherry-pick 1') REPLY='ref' ;;
    'cherry-pick 2') REPLY='branch' ;;
    'clone 1') REPLY='directory' ;;
    'clone 2') REPLY='repository' ;;
    'commit 1') REPLY='branch' ;;
    'completion 1') REPLY='=bash zsh fish' ;;
    'config get 1') REPLY='setting' ;;
    'config set 1') REPLY='setting' ;;
    'config set 2') REPLY='nothing' ;;
    'config unset 1') REPLY='setting' ;;
    'diff 1') REPLY='ref-or-own-file@' ;;
    'diff 2') REPLY='ref-or-own-file@' ;;
    'doctor 1') REPLY='repository' ;;
    'export 1') REPLY='path' ;;
    'export 2') REPLY='directory' ;;
    'fetch 1') REPLY='repository' ;;
    'find-merge-base 1') REPLY='ref@' ;;
    'find-merge-base 2') REPLY='ref@' ;;
    'fs cat '*) REPLY='path@' ;;
    'fs cp 1') REPLY='path' ;;
    'fs cp 2') REPLY='path' ;;
    'fs download 1') REPLY='path@' ;;
    'fs download 2') REPLY='file' ;;
    'fs du 1') REPLY='path@' ;;
    'fs find 1') REPLY='path@' ;;
    'fs ls 1') REPLY='path@' ;;
    'fs mv 1') REPLY='path' ;;
    'fs mv 2') REPLY='path' ;;
    'fs presign '*) REPLY='path@' ;;
    'fs rm '*) REPLY='path' ;;
    'fs stage 1') REPLY='path' ;;
    'fs stat 1') REPLY='path@' ;;
    'fs update-metadata '*) REPLY='path' ;;
    'fs upload 1') REPLY='file' ;;
    'fs upload '*) REPLY='path' ;;
    'fsck 1') REPLY='repository' ;;
    'gc delete-config 1') REPLY='repository' ;;
    'gc get-config 1') REPLY='repository' ;;
    'gc run 1') REPLY='repository' ;;
    'gc set-config 1') REPLY='repository' ;;
    'gc status 1') REPLY='repository' ;;
    'gc undo 1') REPLY='repository' ;;
    'local checkout 1') REPLY='directory' ;;
    'local clone 1') REPLY='path' ;;
    'local clone 2') REPLY='directory' ;;
    'local commit 1') REPLY='directory' ;;
    'local diff 1') REPLY='directory' ;;
    'local init 1') REPLY='path' ;;
    'local init 2') REPLY='directory' ;;
    'local list 1') REPLY='directory' ;;
    'local pull 1') REPLY='directory' ;;
    'local status 1') REPLY='directory' ;;
    'log 1') REPLY='ref-or-file@' ;;
    'merge 1') REPLY='ref' ;;
    'merge 2') REPLY='branch' ;;
    'op log 1') REPLY='repository' ;;
    'op redo 1') REPLY='repository' ;;
    'op restore 1') REPLY='repository' ;;
    'op restore 2') REPLY='operation' ;;
    'op show 1') REPLY='repository' ;;
    'op show 2') REPLY='operation' ;;
    'op undo 1') REPLY='repository' ;;
    'policy edit 1') REPLY='repository' ;;
    'policy log 1') REPLY='repository' ;;
    'policy set 1') REPLY='repository' ;;
    'policy set 2') REPLY='file' ;;
    'policy show 1') REPLY='repository' ;;
    'publish 1') REPLY='ref' ;;
    'publish 2') REPLY='branch' ;;
    'pull 1') REPLY='ref' ;;
    'push 1') REPLY='ref' ;;
    'quickstart 1') REPLY='directory' ;;
    'redo 1') REPLY='repository' ;;
    'reflog 1') REPLY='ref@' ;;
    'refs-dump 1') REPLY='repository' ;;
    'refs-restore 1') REPLY='repository' ;;
    'repo create 1') REPLY='repository' ;;
    'repo create 2') REPLY='directory' ;;
    'repo delete 1') REPLY='repository' ;;
    'restore '*) REPLY='file-of-ref' ;;
    'rev-parse '*) REPLY='ref@' ;;
    'run 1') REPLY='branch' ;;
    'run '*) REPLY='nothing' ;;
    'run abort 1') REPLY='branch' ;;
    'run list 1') REPLY='repository' ;;
    'run resume 1') REPLY='branch' ;;
    'run show 1') REPLY='branch' ;;
    'serve '*) REPLY='repository' ;;
    'show commit 1') REPLY='ref@' ;;
    'status 1') REPLY='branch' ;;
    'tag create 1') REPLY='tag' ;;
    'tag create 2') REPLY='ref' ;;
    'tag delete '*) REPLY='tag' ;;
    'tag list 1') REPLY='repository@' ;;
    'tag show 1') REPLY='tag@' ;;
    'undo 1') REPLY='repository' ;;
    'use 1') REPLY='ref' ;;
    'help 1') REPLY='=annotate approve bisect blame branch branch-protect cat-sst check check-ignore checkout cherry-pick clone clouds commit completion config diff doctor exit-codes export fetch find-merge-base fs fsck gc handoff import json lakectl lakefs layout libraries local log merge op plugin policy publish pull push python quickstart recipes redo reflog refs-dump refs-restore remotes repo restore rev-parse revisions run security serve show spark status tag tutorial undo use version working-directory' ;;
    *) REPLY=nothing ;;
    esac
}

# The words up to the cursor, in the caller's `words`, as they were typed: pieces of COMP_WORDS
# with no blank between them in the line are one word.
__lakecli_reassemble() {
    local line=${COMP_LINE:0:COMP_POINT} piece rest i count=0
    words=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        rest=${line#"${line%%[![:space:]]*}"}
        piece=${COMP_WORDS[i]}
        ((i == COMP_CWORD)) && piece=$rest
        if ((i > 0)) && [[ $rest == "$line" ]]; then
            words[count - 1]+=$piece
        else
            words[count]=$piece
            count=$((count + 1))
        fi
        line=${rest#"$piece"}
    done
}

# The text $1 without its quotes and backslashes, in REPLY; in `open` the quote that is not closed.
__lakecli_unquote() {
    local text=$1 character
    REPLY= open=
    while [[ -n $text ]]; do
        character=${text:0:1} text=${text:1}
        if [[ $character == "$open" ]]; then
            open=
        elif [[ -z $open && $character == [\'\"] ]]; then
            open=$character
        elif [[ $character == '\' && $open != "'" ]] && [[ -z $open || $text == [\$\`\"\\]* ]]; then
            REPLY+=${text:0:1} text=${text:1}
        else
            REPLY+=$character
        fi
    done
}

# Fill COMPREPLY with what completes $2 as $1 says; $3 is the part before it in the same word,
# and $4 what readline takes for the word, which is what it replaces.
__lakecli_reply() {
    local kind=$1 before=$3 keep=$3$2 open='' value candidate special found=()
    local ended_quote="'\\''"
    keep=${keep%"$4"}
    __lakecli_unquote "$keep"
    keep=$REPLY
    __lakecli_unquote "$2"
    value=$REPLY
    while IFS= read -r candidate; do
        [[ $candidate == "$value"* ]] && found+=("$candidate")
    done < <(
        case $kind in
        =*) compgen -W "${kind#=}" -- "$value" ;;
        file) compgen -f -- "$value" ;;
        directory) compgen -d -- "$value" ;;
        nothing) ;;
        *) command lakecli __complete "$kind" "$value" 2>/dev/null ;;
        esac
    )
    [[ $kind == file || $kind == directory ]] && compopt -o filenames 2>/dev/null
    for candidate in "${found[@]}"; do
        candidate=$before$candidate
        candidate=${candidate#"$keep"}
        if [[ $kind != file && $kind != directory ]]; then
            [[ $candidate == */ || $candidate == *@ || $kind == setting && $candidate == *. ]] &&
                compopt -o nospace 2>/dev/null
            # Readline closes an open quote, and quotes nothing in it.
            case $open in
            \') candidate=${candidate//\'/$ended_quote} ;;
            \")
                for special in '\' '"' '$' '`'; do
                    candidate=${candidate//"$special"/\\$special}
                done
                ;;
            *) printf -v candidate %q "$candidate" ;;
            esac
        fi
        COMPREPLY+=("$candidate")
    done
}

_lakecli() {
    local IFS=$' \t\n' words=() command='' value='' position=1 ended='' i word REPLY
    COMPREPLY=()
    __lakecli_reassemble
    local last=$((${#words[@]} - 1))
    for ((i = 1; i < last; i++)); do
        word=${words[i]}
        if [[ -n $value ]]; then
            value=
        elif [[ -n $ended ]]; then
            position=$((position + 1))
        elif [[ $word == -- ]]; then
            ended=yes
        elif [[ $word == -* ]]; then
            [[ $word != *=* ]] && __lakecli_value "$command" "$word" && value=$REPLY
        elif __lakecli_words "$command"; then
            # Every word but the last two stands in the tree, or there is nothing to complete.
            [[ " $REPLY " == *" $word "* ]] || return 0
            command=${command:+$command }$word
        else
            position=$((position + 1))
        fi
    done
    word=${words[last]}
    if [[ -n $value ]]; then
        __lakecli_reply "$value" "$word" '' "$2"
    elif [[ -z $ended && $word == --*=* ]]; then
        __lakecli_value "$command" "${word%%=*}" || return 0
        __lakecli_reply "$REPLY" "${word#*=}" "${word%%=*}=" "$2"
    elif [[ -z $ended && $word == -* ]]; then
        __lakecli_options "$command"
        COMPREPLY=($(compgen -W "$REPLY" -- "$word"))
    elif __lakecli_words "$command"; then
        COMPREPLY=($(compgen -W "$REPLY" -- "$word"))
    else
        __lakecli_argument "$command" "$position"
        __lakecli_reply "$REPLY" "$word" '' "$2"
    fi
}

complete -F _lakecli lakecli
