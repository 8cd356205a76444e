package ops

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
)

// scriptHash returns the hash of a page's one script, for its content security
// policy.
func scriptHash(page []byte) string {
	_, rest, _ := bytes.Cut(page, []byte("<script>"))
	script, _, _ := bytes.Cut(rest, []byte("</script>"))
	sum := sha256.Sum256(script)
	return base64.StdEncoding.EncodeToString(sum[:])
}
