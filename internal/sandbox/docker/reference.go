package docker

import (
	"strings"

	"parley/internal/fault"
	"parley/internal/lazyre"
)

// maxReference bounds a reference; the grammar's own bounds add up to about this.
const maxReference = 512

// referenceForm is the grammar of image references (github.com/distribution/reference):
// host and port, path, tag, digest.
var referenceForm = lazyre.MustCompile(`^(?:(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]+)?/)?` +
	`[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*` +
	`(?::[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127})?(?:@[a-z0-9]+:[0-9a-f]{32,128})?$`)

// imageIDForm is the id of an image that the engine has.
var imageIDForm = lazyre.MustCompile(`^sha256:[0-9a-f]{64}$`)

func checkReference(ref string) error {
	if len(ref) <= maxReference && !strings.Contains(ref, "..") && (referenceForm.MatchString(ref) || imageIDForm.MatchString(ref)) {
		return nil
	}
	return fault.New(fault.Invalid, "sandbox_image", "%q is not the name of a container image.", quotable(ref)).
		WithHint("Names look like debian:bookworm or registry.example.com/team/image:tag.")
}

// splitReference separates what a pull names separately: the tag, or the digest.
// Without either it is "latest": the engine would fetch all tags otherwise.
func splitReference(ref string) (name, tag string) {
	if name, digest, ok := strings.Cut(ref, "@"); ok {
		if at := tagAt(name); at >= 0 {
			name = name[:at] // the digest decides
		}
		return name, digest
	}
	if at := tagAt(ref); at >= 0 {
		return ref[:at], ref[at+1:]
	}
	return ref, "latest"
}

// tagAt returns where the colon of the tag is, -1 if there is none: one before
// the last slash belongs to a port.
func tagAt(ref string) int {
	if at := strings.LastIndexByte(ref, ':'); at > strings.LastIndexByte(ref, '/') {
		return at
	}
	return -1
}
