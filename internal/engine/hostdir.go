package engine

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"parley/internal/fault"
)

const (
	minNonce = 16
	maxNonce = 256
	// proofPrefix starts the names of proofs. Without a name of their own any file
	// whose content is known (.git/HEAD, /etc/issue) would be one.
	proofPrefix = ".parley-proof-"
	// proofAge bounds how old a proof may be: it was made for this request.
	proofAge = 10 * time.Minute
)

// systemTrees hold what the machine runs on or with: nothing below them is
// anybody's project, not even root's.
var systemTrees = []string{"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin",
	"/sys", "/usr/bin", "/usr/include", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/libx32",
	"/usr/local/bin", "/usr/local/lib", "/usr/local/sbin", "/usr/sbin", "/usr/share", "/var/spool"}

// systemDirs may hold projects, but are none.
var systemDirs = []string{"/", "/home", "/media", "/mnt", "/opt", "/root", "/srv", "/tmp", "/usr", "/usr/local", "/usr/src",
	"/var", "/var/lib", "/var/tmp"}

// checkHostDir checks the proof that the caller may write in a directory of this
// machine: a file made there just now, with the nonce in it, owned by whoever
// owns the directory. Someone who only holds an API key cannot make one, so a key
// alone opens no directory.
func (e *Engine) checkHostDir(h HostDir) (string, error) {
	if !e.opt.HostDirs {
		return "", hostDirFault("this server does not mount directories of its machine (host_directories: off)")
	}
	if !filepath.IsAbs(h.Path) || filepath.Clean(h.Path) != h.Path || h.Path == "/" {
		return "", hostDirFault("the path must be absolute, clean and not /")
	}
	if len(h.Nonce) < minNonce || len(h.Nonce) > maxNonce {
		return "", hostDirFault("the nonce must have 16 to 256 characters")
	}
	if !strings.HasPrefix(h.Proof, proofPrefix) || strings.ContainsAny(h.Proof, "/\x00") {
		return "", hostDirFault("the proof must be the name of a file in the directory that begins with " + proofPrefix)
	}
	if real, err := filepath.EvalSymlinks(h.Path); err != nil || real != h.Path {
		return "", hostDirFault("the path does not exist on the server's machine, or goes through a symbolic link")
	}
	if err := e.checkPlace(h.Path); err != nil {
		return "", err
	}
	return h.Path, checkProof(h)
}

// checkPlace refuses directories that no sandbox may get, whoever asks.
func (e *Engine) checkPlace(dir string) error {
	home := filepath.Dir(dir) == "/home"
	if home || slices.Contains(systemDirs, dir) || slices.ContainsFunc(systemTrees, func(t string) bool { return within(dir, t) }) {
		return hostDirFault("it is a system directory or a whole home directory; use a directory of the project's own")
	}
	for _, p := range e.opt.Private {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			p = real
		}
		if within(dir, p) || within(p, dir) {
			return hostDirFault("the server keeps its own data in or around it")
		}
	}
	return nil
}

// within reports whether a clean absolute path is dir or below it.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

func hostDirFault(why string) error {
	return fault.New(fault.Invalid, "host_dir_refused", "The directory cannot be used as working directory: %s.", why)
}

func checkProof(h HostDir) error {
	missing := hostDirFault("the proof file is not there or does not hold the nonce; it works only on the server's own machine")
	root, err := os.OpenRoot(h.Path)
	if err != nil {
		return missing
	}
	defer func() { _ = root.Close() }()
	f, info, err := openProof(root, h.Proof)
	if err != nil {
		return missing
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxNonce+2))
	if err != nil || strings.TrimSpace(string(text)) != h.Nonce {
		return missing
	}
	if age := time.Since(info.ModTime()); age > proofAge || age < -proofAge {
		return hostDirFault("the proof file is not new; make one for each request")
	}
	return checkOwner(root, info)
}

// openProof opens a regular file that is no link. Opening does not wait for the
// other end of what turns out to be a pipe.
func openProof(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	linked, err := root.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || !os.SameFile(linked, info) {
		_ = f.Close()
		return nil, nil, fs.ErrInvalid
	}
	return f, info, nil
}

// checkOwner demands that the proof belongs to the directory's owner: in a
// directory that everybody may write to (/tmp), a proof proves nothing. A second
// name of somebody else's file does not either.
func checkOwner(root *os.Root, file fs.FileInfo) error {
	dir, err := root.Stat(".")
	if err != nil {
		return hostDirFault("the directory cannot be read")
	}
	d, ok1 := dir.Sys().(*syscall.Stat_t)
	p, ok2 := file.Sys().(*syscall.Stat_t)
	if !ok1 || !ok2 || d.Uid != p.Uid || p.Nlink != 1 {
		return hostDirFault("the proof file does not belong to the directory's owner")
	}
	if dir.Mode().Perm()&0o002 != 0 {
		return hostDirFault("everybody may write to the directory")
	}
	return nil
}
