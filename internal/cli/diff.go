package cli

import (
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// maxDiffBytes bounds what is compared: the algorithm is quadratic in the worst case.
const maxDiffBytes = 512 << 10

// diffLines is the unified difference of two texts without its file header, nil
// if there is none, false if the texts are too large to compare.
func diffLines(before, after string) ([]string, bool) {
	if len(before)+len(after) > maxDiffBytes {
		return nil, false
	}
	lines := textLines(udiff.Unified("a", "b", Clean(before), Clean(after)))
	if len(lines) > 2 {
		lines = lines[2:]
	}
	return lines, true
}

// diffStyle is how a line of a unified difference looks.
func diffStyle(line string) style {
	switch {
	case strings.HasPrefix(line, "+"):
		return green
	case strings.HasPrefix(line, "-"):
		return red
	case strings.HasPrefix(line, "@@"):
		return cyan
	}
	return plain
}
