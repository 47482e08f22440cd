"""git: which subcommands only read, and their options. Operands are judged elsewhere."""

from __future__ import annotations

_DIFF = (
    "-puswbzRaW -U:num -M? -C? -B? -l:num -S:text -G:text -X? --patch --no-patch --unified:num --raw "
    "--patch-with-raw "
    "--indent-heuristic --no-indent-heuristic --minimal --patience --histogram --diff-algorithm:text --stat? "
    "--stat-width:num --stat-name-width:num --stat-count:num --compact-summary --numstat --shortstat "
    "--dirstat? "
    "--cumulative --summary --name-only --name-status --no-color --color? --color-moved? --no-color-moved "
    "--color-moved-ws:text --word-diff? --word-diff-regex:text --color-words? --no-renames --check "
    "--full-index "
    "--binary --abbrev? --no-abbrev --find-renames? --find-copies? --find-copies-harder --break-rewrites? "
    "--diff-filter:text --pickaxe-all --pickaxe-regex --no-prefix --src-prefix:text --dst-prefix:text --text "
    "--ignore-space-at-eol --ignore-cr-at-eol --ignore-space-change --ignore-all-space --ignore-blank-lines "
    "--ignore-matching-lines:text --inter-hunk-context:num --function-context --exit-code --quiet "
    "--no-ext-diff "
    "--no-textconv --ignore-submodules? --relative? --no-relative --submodule? --irreversible-delete "
    "--rename-empty "
    "--no-rename-empty --anchored:text --default-prefix --line-prefix:text --ita-invisible-in-index "
    "--merge-base "
    "--cached --staged --cc -c -m -t -r --combined-all-paths"
)
_LIST = (
    "-n:num -NUM -i -E -F -P -L:text -g --max-count:num --skip:num --since:text --after:text "
    "--until:text --before:text "
    "--author:text --committer:text --grep:text --grep-reflog:text --all-match --invert-grep "
    "--regexp-ignore-case "
    "--basic-regexp --extended-regexp --fixed-strings --perl-regexp --merges --no-merges --min-parents:num "
    "--max-parents:num --first-parent --not --all --branches? --tags? --remotes? --glob:text "
    "--exclude:text --reflog "
    "--boundary --left-only --right-only --cherry --cherry-pick --cherry-mark --left-right "
    "--walk-reflogs --merge "
    "--simplify-by-decoration --full-history --dense --sparse --simplify-merges --ancestry-path? "
    "--show-pulls "
    "--date-order --author-date-order --topo-order --reverse --no-walk? --do-walk --pretty? "
    "--format:text --oneline "
    "--abbrev-commit --no-abbrev-commit --encoding:text --expand-tabs? --no-expand-tabs --notes? --no-notes "
    "--relative-date --date:text --parents --children --graph --no-graph --show-linear-break? --source "
    "--decorate? "
    "--no-decorate --decorate-refs:text --decorate-refs-exclude:text --mailmap --no-mailmap "
    "--use-mailmap --log-size "
    "--clear-decorations --follow --count --diff-merges:text --no-diff-merges --remove-empty "
    "--exclude-first-parent-only"
)
_PATTERN_LIST = (
    "--sort:text --format:text --contains? --no-contains? --merged? --no-merged? "
    "--points-at:text --color? --ignore-case"
)

READ_ONLY: dict[str, str] = {
    "status": "-sbvz -u? --short --branch --porcelain? --long --verbose --untracked-files? --ignored? "
    "--ignore-submodules? "
    "--column? --no-column --ahead-behind --no-ahead-behind --renames --no-renames --find-renames? "
    "--show-stash --null",
    "log": f"{_LIST} {_DIFF}",
    "show": f"{_LIST} {_DIFF}",
    "whatchanged": f"{_LIST} {_DIFF}",
    "diff": f"-0 -1 -2 -3 --no-index --base --ours --theirs {_DIFF}",
    "diff-tree": f"-r -t --root --no-commit-id --always -v --pretty? --format:text {_DIFF}",
    "diff-index": _DIFF,
    "diff-files": _DIFF,
    "blame": "-bcltfnsewpMC -L:text -S:read --root --show-stats --incremental --porcelain "
    "--line-porcelain --show-name "
    "--show-number --show-email --abbrev:num --date:text --since:text --ignore-rev:text "
    "--ignore-revs-file:read "
    "--color-lines --color-by-age --first-parent --reverse",
    "annotate": "-bcltfnsewp -L:text",
    "rev-parse": "-q --quiet --verify --short? --abbrev-ref? --symbolic --symbolic-full-name --all "
    "--branches? --tags? "
    "--remotes? --git-dir --absolute-git-dir --git-common-dir --show-toplevel --show-prefix --show-cdup "
    "--show-superproject-working-tree --is-inside-git-dir --is-inside-work-tree --is-bare-repository "
    "--is-shallow-repository --git-path:text --path-format:text --show-object-format? --since:text "
    "--until:text "
    "--not --revs-only --no-revs --flags --no-flags --sq --default:text --local-env-vars",
    "ls-files": "-cdmosiuktvfz -x:text -X:read --cached --deleted --modified --others --ignored "
    "--stage --unmerged --killed --eol --deduplicate --exclude:text --exclude-from:read "
    "--exclude-per-directory:text "
    "--exclude-standard --error-unmatch --full-name --directory --no-empty-directory --abbrev? "
    "--recurse-submodules "
    "--format:text",
    "ls-tree": "-drtlz --long --name-only --name-status --object-only --full-name --full-tree --abbrev? "
    "--format:text",
    "cat-file": "-tspe --batch-check? --allow-unknown-type --unordered",
    "describe": "--all --tags --contains --abbrev? --candidates:num --exact-match --debug --long "
    "--match:text "
    "--exclude:text --always --first-parent --dirty? --broken?",
    "shortlog": f"{_LIST} -nsec -w? --numbered --summary --email --group:text --committer",
    "merge-base": "-a --all --octopus --is-ancestor --independent --fork-point",
    "rev-list": f"{_LIST} --objects --disk-usage? --timestamp --quiet --no-object-names --use-bitmap-index",
    "name-rev": "--name-only --tags --refs:text --exclude:text --always --no-undefined --all",
    "for-each-ref": f"--count:num --exclude:text --include-root-refs -NUM {_PATTERN_LIST}",
    "show-ref": "-qsdh --head --heads --branches --tags --dereference --hash? --verify --exists "
    "--abbrev? --quiet",
    "show-branch": "-ar --all --remotes --current --topo-order --date-order --sparse --more:num --list "
    "--merge-base "
    "--independent --no-name --sha1-name --topics --color? --no-color",
    "count-objects": "-vH --verbose --human-readable",
    "check-ignore": "-qvzn --quiet --verbose --non-matching --no-index",
    "check-attr": "-az --all --cached",
    "cherry": "-v --abbrev?",
    "range-diff": f"--creation-factor:num --no-dual-color --left-only --right-only {_DIFF}",
    "grep": "-aIirvwhHEGPFnlLcopzWq -m:num -e:text -f:read -A:num -B:num -C:num -NUM --cached --untracked "
    "--exclude-standard --no-exclude-standard --recurse-submodules --text --ignore-case --recursive "
    "--no-recursive "
    "--max-depth:num --word-regexp --invert-match --full-name --extended-regexp --basic-regexp --perl-regexp "
    "--fixed-strings --line-number --column --files-with-matches --name-only --files-without-match --null "
    "--only-matching --count --color? --no-color --break --heading --show-function --context:num "
    "--after-context:num --before-context:num --function-context --max-count:num --threads:num --and "
    "--or --not "
    "--all-match --quiet",
    "version": "--build-options",
    "var": "",
    "fsck": "-v --full --no-full --strict --verbose --unreachable --dangling --no-dangling "
    "--connectivity-only --no-reflogs --no-progress --progress --root --tags --cache --name-objects",
    "hash-object": "-t:text --stdin --no-filters --path:name",
}
"""Subcommands that only read with these options, whatever their operands."""

BRANCH = (
    "-alrvqi --all --list --remotes --verbose --quiet --show-current --column? --no-column --abbrev? "
    "--no-abbrev --no-color "
    f"{_PATTERN_LIST}"
)
TAG = f"-l -n? --list --column? --no-column {_PATTERN_LIST}"
STASH_SHOW = _DIFF
LOG = READ_ONLY["log"]

DIFF_MERGES = frozenset(
    {"off", "none", "on", "m", "first-parent", "1", "separate", "c", "combined", "cc", "dense-combined"}
)
"""Ways to show merges that do not merge again, which would run the repository's merge drivers."""

SHOWS_DIFFS = frozenset({"show", "diff", "diff-tree", "diff-index", "diff-files", "range-diff"})
"""Subcommands that show the content of files unless an option says otherwise."""

LISTS_ONLY = frozenset(
    {
        *("--stat", "--numstat", "--shortstat", "--name-only", "--name-status", "--raw", "--summary", "-s"),
        *("--dirstat", "--compact-summary", "--no-patch", "--quiet", "--cumulative"),
    }
)
"""Options with which a diff shows names and numbers instead of content."""

SHOWS_CONTENT = frozenset(
    {
        *(
            "-p",
            "-u",
            "--patch",
            "-U",
            "--unified",
            "-c",
            "--cc",
            "-W",
            "--function-context",
            "--binary",
        ),
        *("--word-diff", "--color-words", "--patch-with-raw", "--word-diff-regex", "--check", "--full-diff"),
        *("--diff-merges", "-m", "--remerge-diff"),
    }
)
"""Options with which content is shown after all."""
