package sandboxd

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
)

// verdict is what an error of the operating system means to a caller.
type verdict struct {
	kind fault.Kind
	code string
	why  string
	hint string
}

// pathFault classifies what the operating system said when verb ("read") was
// tried on path.
func pathFault(err error, verb, path string) error {
	var f *fault.Error
	if err == nil || errors.As(err, &f) {
		return err
	}
	v := judge(err)
	return fault.Wrap(err, v.kind, v.code, "Cannot %s %s: %s.", verb, path, v.why).WithHint("%s", v.hint)
}

func judge(err error) verdict {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return verdict{kind: fault.Internal, code: "io_error", why: "an unexpected error occurred"}
	}
	for _, judge := range []func(syscall.Errno) (verdict, bool){judgePath, judgeRight, judgeResource} {
		if v, ok := judge(errno); ok {
			return v
		}
	}
	return verdict{kind: fault.Internal, code: "io_error", why: errno.Error()}
}

func judgePath(errno syscall.Errno) (verdict, bool) {
	switch errno {
	case unix.ENOENT:
		return verdict{kind: fault.NotFound, code: CodeNotFound, why: "there is no such file or directory"}, true
	case unix.ENOTDIR:
		return verdict{kind: fault.Invalid, code: CodeNotDirectory, why: "it, or a part of its path, is not a directory"}, true
	case unix.EISDIR:
		return verdict{kind: fault.Invalid, code: CodeIsDirectory, why: "it is a directory"}, true
	case unix.EEXIST:
		return verdict{kind: fault.Conflict, code: CodeExists, why: "it exists already"}, true
	case unix.ENAMETOOLONG:
		return verdict{kind: fault.Invalid, code: CodeNameTooLong, why: "the name is too long"}, true
	case unix.ELOOP:
		return verdict{kind: fault.Invalid, code: "too_many_links", why: "too many symbolic links follow each other"}, true
	case unix.EINVAL, unix.EILSEQ:
		return verdict{kind: fault.Invalid, code: CodeBadPath, why: "the file system does not take this name"}, true
	case unix.ENXIO, unix.ENODEV, unix.ESPIPE:
		return verdict{kind: fault.Invalid, code: CodeNotRegular, why: "it is not a regular file"}, true
	case unix.ENOTEMPTY:
		return verdict{kind: fault.Conflict, code: "not_empty", why: "the directory is not empty"}, true
	}
	return verdict{}, false
}

func judgeRight(errno syscall.Errno) (verdict, bool) {
	switch errno {
	case unix.EACCES, unix.EPERM:
		return verdict{kind: fault.Forbidden, code: CodeDenied, why: "permission denied",
			hint: "The sandbox's user has no right to this path."}, true
	case unix.EROFS:
		return verdict{kind: fault.Forbidden, code: CodeReadOnly, why: "the file system is read-only",
			hint: "Use a path in the working directory or in /tmp."}, true
	case unix.EOVERFLOW:
		return verdict{kind: fault.Forbidden, code: "unmapped_owner", why: "its owner does not exist in the sandbox",
			hint: "Copy the file and change the copy."}, true
	case unix.EBUSY, unix.ETXTBSY:
		return verdict{kind: fault.Conflict, code: "busy", why: "it is in use by the system",
			hint: "It may be a mount point or a running program."}, true
	case unix.EXDEV:
		return verdict{kind: fault.Conflict, code: "busy", why: "it is on another file system"}, true
	}
	return verdict{}, false
}

func judgeResource(errno syscall.Errno) (verdict, bool) {
	switch errno {
	case unix.ENOSPC, unix.EDQUOT:
		return verdict{kind: fault.Unavailable, code: CodeDiskFull, why: "no space is left on the disk",
			hint: "Remove files that are not needed and try again."}, true
	case unix.EFBIG:
		return verdict{kind: fault.TooLarge, code: CodeTooLarge, why: "it is too large for the file system"}, true
	case unix.EMFILE, unix.ENFILE:
		return verdict{kind: fault.Unavailable, code: "too_many_open_files", why: "too many files are open in the sandbox",
			hint: "End programs that hold many files open."}, true
	case unix.ENOMEM, unix.ENOBUFS:
		return verdict{kind: fault.Unavailable, code: "out_of_memory", why: "the sandbox is out of memory",
			hint: "End programs that use much memory."}, true
	case unix.EAGAIN:
		return verdict{kind: fault.Unavailable, code: "too_many_processes", why: "the sandbox's limit of processes is reached",
			hint: "End programs that are not needed."}, true
	}
	return verdict{}, false
}
