package sqlstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"parley/internal/fault"
)

// micros is how a time is stored. The zero time has a value of its own.
func micros(t time.Time) int64 { return t.UnixMicro() }

// timeInto scans micros.
type timeInto struct{ t *time.Time }

// Scan implements sql.Scanner.
func (s timeInto) Scan(src any) error {
	n, ok := src.(int64)
	if !ok {
		return fmt.Errorf("time is %T", src)
	}
	*s.t = time.UnixMicro(n).UTC()
	return nil
}

// document is how a value is stored as JSON text.
func document(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}

// jsonInto scans a document.
type jsonInto struct{ v any }

// Scan implements sql.Scanner.
func (s jsonInto) Scan(src any) error {
	switch text := src.(type) {
	case string:
		return json.Unmarshal([]byte(text), s.v)
	case []byte:
		return json.Unmarshal(text, s.v)
	}
	return fmt.Errorf("document is %T", src)
}

// badRecord is the fault of a caller that breaks a rule of the seam.
func badRecord(op, what string) error {
	return fault.Wrap(errors.New(what), fault.Internal, codeBadRow, "").WithOp(op)
}
