package sandboxd

import (
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
)

// cleanPath checks a path and brings it into its one canonical form. A trailing
// slash is lost; whoever writes a file must look at it before.
func cleanPath(path string) (string, error) {
	switch {
	case !filepath.IsAbs(path):
		return "", fault.New(fault.Invalid, CodeBadPath, "The path %q is not absolute.", path)
	case strings.IndexByte(path, 0) >= 0:
		return "", fault.New(fault.Invalid, CodeBadPath, "The path %q contains a NUL byte.", path)
	case len(path) >= maxPath:
		return "", pathFault(unix.ENAMETOOLONG, "use", path[:64]+"...")
	}
	return filepath.Clean(path), nil
}

// resolve follows the symbolic links of path to the file it means, which need
// not exist. Replacing what it returns leaves the links as they are. The result
// is not cleaned: ".." after a link means the parent of the link's target.
func resolve(path string) (string, error) {
	const maxLinks = 40 // as the kernel
	for range maxLinks {
		target, err := readLink(path)
		if target == "" || err != nil {
			return path, err
		}
		if !filepath.IsAbs(target) {
			target = directory(path) + target
		}
		path = target
	}
	return "", unix.ELOOP
}

// directory is the part of path before its last name, with the slash.
func directory(path string) string { return path[:strings.LastIndexByte(path, '/')+1] }

// readLink returns the target of a symbolic link, "" for all that is none.
func readLink(path string) (string, error) {
	buf := make([]byte, maxPath)
	n, err := unix.Readlink(path, buf)
	if err == unix.EINVAL || err == unix.ENOENT {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}
