package tool

import (
	"errors"
	"fmt"

	"parley/internal/fault"
)

// mistake is something the model did wrong; it reads the text.
type mistake struct{ text string }

func (m *mistake) Error() string { return m.text }

// Wrong is an error whose text tells a model what it did wrong and how to do it
// right.
func Wrong(format string, args ...any) error { return &mistake{fmt.Sprintf(format, args...)} }

// ForModel returns the text of an error that the model can do something about:
// what Wrong made, and what the sandbox refused. Such an error is an observation
// with is_error; any other means that the tool could not run.
func ForModel(err error) (text string, ok bool) {
	var m *mistake
	if errors.As(err, &m) {
		return m.text, true
	}
	if err == nil {
		return "", false
	}
	switch fault.KindOf(err) {
	case fault.NotFound, fault.Forbidden, fault.Conflict, fault.TooLarge, fault.Invalid, fault.Unsupported:
		return fault.PublicText(err), true
	}
	return "", false
}
