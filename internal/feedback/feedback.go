// Package feedback keeps what users say of conversations for the operator: one line
// of JSON each, at the end of a file that only the operator can read. Nothing is sent
// anywhere. An entry that was taken is on the disk; a full file takes no more.
package feedback

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"parley/internal/fault"
)

// MaxFile is how large the file gets, in bytes. The operator moves it away.
const MaxFile = 64 << 20

// Entry is one user's opinion of a conversation. Texts are the client's.
type Entry struct {
	ID           string    `json:"feedback_id"`
	Time         time.Time `json:"time"`
	User         string    `json:"user_id"`
	Conversation string    `json:"conversation_id"`
	Events       int64     `json:"events"` // that the conversation's log had
	Polarity     string    `json:"polarity"`
	Permissions  string    `json:"permissions"`
	Email        string    `json:"email"`
	Version      string    `json:"version"` // of the client
}

// Journal is the file. It is made with the first entry. It may be used concurrently,
// by one process.
type Journal struct {
	path string
	mu   sync.Mutex
}

// New returns the journal at path.
func New(path string) *Journal { return &Journal{path: path} }

// Add writes an entry. Unavailable (code "feedback_full") if the file is full.
func (j *Journal) Add(e Entry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("feedback: %w", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	f, err := os.OpenFile(j.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("feedback: %w", err)
	}
	err = write(f, append(line, '\n'))
	return errors.Join(err, f.Close())
}

// write appends a line. A crash may have left the last one without its end.
func write(f *os.File, line []byte) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("feedback: %w", err)
	}
	if size+int64(len(line)) >= MaxFile {
		return fault.New(fault.Unavailable, "feedback_full", "The server keeps no more feedback.").
			WithHint("The operator has to move the file away.")
	}
	last := []byte{'\n'}
	if size > 0 {
		if _, err := f.ReadAt(last, size-1); err != nil {
			return fmt.Errorf("feedback: %w", err)
		}
	}
	if last[0] != '\n' {
		line = append([]byte{'\n'}, line...)
	}
	if _, err := f.Write(line); err != nil {
		return fmt.Errorf("feedback: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("feedback: %w", err)
	}
	return nil
}
