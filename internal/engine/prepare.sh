# Prepares a conversation's working directory inside its sandbox. Input comes by
# environment only. Doing it twice is harmless.
set -eu
mkdir -p "$PARLEY_DIR"
cd "$PARLEY_DIR"
command -v git >/dev/null 2>&1 || {
  if [ -n "${PARLEY_CLONE:-}" ]; then echo "git is not installed in the sandbox" >&2; exit 1; fi
  exit 0
}
if [ ! -f "$HOME/.gitconfig" ]; then
  made=$(mktemp "$HOME/.gitconfig.XXXXXX")
  git config --file "$made" user.name "${PARLEY_GIT_NAME:-openhands}"
  git config --file "$made" user.email "${PARLEY_GIT_EMAIL:-openhands@all-hands.dev}"
  git config --file "$made" safe.directory '*'
  mv "$made" "$HOME/.gitconfig"
fi
fetch() { git clone --quiet "$@" -- "$PARLEY_CLONE" "$part"; }
# The newest commit only, where the server can do that; all where it cannot, and where
# what is asked for is neither a branch nor a tag.
shallow() {
  fetch --depth 1 "$@" 2>/dev/null && git -C "$part" config remote.origin.fetch '+refs/heads/*:refs/remotes/origin/*' || {
    rm -rf "$part"
    fetch
  }
}
if [ -n "${PARLEY_CLONE:-}" ] && [ ! -d "$PARLEY_CLONE_DIR/.git" ]; then
  # Made beside its place: a clone that was cut off must not pass for a whole one.
  part="$PARLEY_CLONE_DIR.parley-part"
  rm -rf "$part"
  if [ -n "${PARLEY_FULL:-}" ]; then fetch; elif [ -n "$PARLEY_BRANCH" ]; then shallow --branch "$PARLEY_BRANCH"; else shallow; fi
  cd "$part"
  if [ -n "${PARLEY_HELPER:-}" ]; then git config "credential.$PARLEY_HELPER_FOR.helper" "$PARLEY_HELPER"; fi
  if [ -n "$PARLEY_BRANCH" ]; then git checkout --quiet "$PARLEY_BRANCH" --; else git checkout --quiet -b "$PARLEY_NEW_BRANCH"; fi
  mv -T "$part" "$PARLEY_CLONE_DIR"
elif [ "${PARLEY_INIT:-}" = here ] && [ ! -d .git ] ||
  [ "${PARLEY_INIT:-}" = outside ] && ! git rev-parse --git-dir >/dev/null 2>&1; then
  git init --quiet --template= .
fi
