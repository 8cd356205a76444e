# Makes a git worktree of the repository around PARLEY_DIR, on a branch of its own,
# and prints the directory in it that stands for PARLEY_DIR. Where there is no
# repository, or nothing in it yet, that is PARLEY_DIR itself. Doing it twice is
# harmless. The repository's hooks do not run.
set -eu
cd "$PARLEY_DIR"
git() { command git -c core.hooksPath=/dev/null -c core.fsmonitor=false "$@"; }
if ! top=$(git rev-parse --show-toplevel 2>/dev/null) || ! git rev-parse --quiet --verify HEAD >/dev/null 2>&1; then
  printf '%s' "$PARLEY_DIR"
  exit 0
fi
inside=$(git rev-parse --show-prefix)
tree="$HOME/conversation-worktrees/$PARLEY_ID/$(basename "$top")"
if [ ! -e "$tree/.git" ]; then
  rm -rf "$tree"
  git worktree prune
  if git show-ref --quiet --verify "refs/heads/$PARLEY_BRANCH"; then
    git worktree add --quiet "$tree" "$PARLEY_BRANCH" >&2
  else
    git worktree add --quiet -b "$PARLEY_BRANCH" "$tree" HEAD >&2
  fi
fi
mkdir -p "$tree/$inside"
printf '%s' "${tree%/}/${inside%/}" | sed 's,/$,,'
