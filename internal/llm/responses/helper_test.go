package responses_test

import (
	"bytes"
	"encoding/json"
	"io"
)

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""`
	}
	return string(b)
}

func newReader(b []byte) io.Reader { return bytes.NewReader(b) }
