package engine

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"parley/internal/fault"
)

const (
	minNonce = 16
	maxNonce = 256
)

// checkHostDir checks the proof that the caller may write in a directory of this
// machine: a file made there, with the nonce in it, owned by whoever owns the
// directory. Someone who only holds an API key cannot make one, so a key alone
// opens no directory.
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
	if h.Proof == "" || strings.ContainsAny(h.Proof, "/\x00") || h.Proof == "." || h.Proof == ".." {
		return "", hostDirFault("the proof must be the name of a file in the directory")
	}
	if real, err := filepath.EvalSymlinks(h.Path); err != nil || real != h.Path {
		return "", hostDirFault("the path does not exist on the server's machine, or goes through a symbolic link")
	}
	return h.Path, checkProof(h)
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
	info, err := root.Lstat(h.Proof)
	if err != nil || !info.Mode().IsRegular() {
		return missing
	}
	f, err := root.Open(h.Proof)
	if err != nil {
		return missing
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxNonce+1))
	if err != nil || strings.TrimSpace(string(text)) != h.Nonce {
		return missing
	}
	return checkOwner(root, f)
}

// checkOwner demands that the proof belongs to the directory's owner: in a
// directory that everybody may write to (/tmp), a proof proves nothing.
func checkOwner(root *os.Root, f *os.File) error {
	dir, err := root.Stat(".")
	if err != nil {
		return hostDirFault("the directory cannot be read")
	}
	file, err := f.Stat()
	if err != nil {
		return hostDirFault("the proof cannot be read")
	}
	d, ok1 := dir.Sys().(*syscall.Stat_t)
	p, ok2 := file.Sys().(*syscall.Stat_t)
	if !ok1 || !ok2 || d.Uid != p.Uid {
		return hostDirFault("the proof file does not belong to the directory's owner")
	}
	if dir.Mode().Perm()&0o002 != 0 {
		return hostDirFault("everybody may write to the directory")
	}
	return nil
}
