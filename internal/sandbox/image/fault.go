package image

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
)

// Fault codes. What a registry says does not exist is Invalid and not NotFound:
// NotFound is for what this store does not have.
const (
	CodeRef          = "image_ref"          // Invalid: no reference of an image
	CodeNotInSource  = "image_not_found"    // Invalid: the registry or file has no such image
	CodeUnauthorized = "image_unauthorized" // Forbidden: the registry wants another or any credential
	CodeRefused      = "image_refused"      // Forbidden: this registry, address or file may not be used
	CodePlatform     = "image_platform"     // Unsupported: nothing for this platform
	CodeKind         = "image_unsupported"  // Unsupported: schema 1, artifacts, encrypted layers
	CodeRegistry     = "image_registry"     // Unavailable: the registry cannot be reached or is broken
	CodeRate         = "image_rate_limited" // RateLimited: the registry wants a pause
	CodeCorrupt      = "image_corrupt"      // Invalid: digests do not match, streams break off, documents make no sense
	CodeHostile      = "image_hostile"      // Invalid: a layer tries to leave its directory
	CodeTooLarge     = "image_too_large"    // TooLarge: over a bound of Options
	CodeDiskFull     = "image_disk_full"    // Unavailable: no room to unpack
	CodeInUse        = "image_in_use"       // Conflict: boxes stand on it
	CodeUnknown      = "image_unknown"      // NotFound: not in this store
	CodeStore        = "image_store"        // Unavailable: the directory cannot be used
	CodeStoreInUse   = "image_store_in_use" // Unavailable: another process has it
	CodeCredentials  = "image_credentials"  // Invalid: the file of credentials cannot be read
)

// maxQuoted bounds what a text repeats of foreign names, in bytes.
const maxQuoted = 200

// quote shows a foreign name in a text.
func quote(name string) string { return fmt.Sprintf("%.*q", maxQuoted, name) }

func corrupt(err error, format string, args ...any) *fault.Error {
	return fault.Wrap(err, fault.Invalid, CodeCorrupt, format, args...).
		WithHint("Pull it again; if that does not help, the image itself is broken.")
}

func tooLarge(format string, args ...any) *fault.Error {
	return fault.New(fault.TooLarge, CodeTooLarge, format, args...)
}

// storeFault classifies an error of the file system. Faults and the ends of
// contexts stay what they are.
func storeFault(err error) error {
	var known *fault.Error
	var errno unix.Errno
	switch {
	case err == nil, errors.As(err, &known), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fault.Wrap(err, fault.Unavailable, CodeDiskFull, "The disk is full: there is no room for the image.").
			WithHint("Free some space, or remove images with `parley images remove`.")
	case errors.As(err, &errno):
		return fault.Wrap(err, fault.Unavailable, CodeStore, "The image store cannot be used: %s.", errno.Error())
	}
	return fault.Wrap(err, fault.Unavailable, CodeStore, "The image store cannot be used.")
}
