#!/usr/bin/env bash
# Comments on the pull request, or updates the comment of an earlier run, which is recognized by its first line: the last
# comment of this token may belong to another workflow. A token without the permission (as in a fork) causes a warning only.
set -euo pipefail

mark='<!-- warpproof gate -->'
body=${RUNNER_TEMP:?}/warpproof-comment.md
warpproof report pr-comment --run "${RUN:?}" --ledger "${LEDGER:?}" -o "$body"

comment() {
    local earlier
    earlier=$(gh api "repos/${GH_REPO:?}/issues/${PULL_REQUEST:?}/comments" --paginate \
        --jq ".[] | select(.body | startswith(\"$mark\")) | .id") || return
    if [ -n "$earlier" ]; then
        gh api --method PATCH "repos/$GH_REPO/issues/comments/${earlier%%$'\n'*}" -F "body=@$body" > /dev/null
    else
        gh pr comment "$PULL_REQUEST" --repo "$GH_REPO" --body-file "$body"
    fi
}

if ! comment; then
    echo '::warning::cannot comment on the pull request; the job needs the permission `pull-requests: write`'
fi
