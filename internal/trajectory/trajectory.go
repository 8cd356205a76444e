// Package trajectory writes a conversation as a zip archive: what is known of it,
// and one file per event of its log. It reads the log in parts while it writes, so
// that the size of a log costs no memory, and knows neither routes nor owners.
package trajectory

import (
	"archive/zip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/store"
)

// MetaFile is the name of the file about the conversation.
const MetaFile = "meta.json"

const (
	part    = 100 // events that are read at once
	maxName = 100 // bytes of an event's id in a file's name
)

// Log is the log to write.
type Log interface {
	// Search returns a page, which is bounded in bytes: large events cost no memory.
	Search(ctx context.Context, q store.EventQuery) (store.EventPage, error)
}

// Archive is what is written.
type Archive struct {
	Conversation conversation.ID
	Head         int64               // events from this seq on are left out: they came later
	Meta         any                 // encoded as JSON
	Modified     time.Time           // of the files
	Mask         func(string) string // hides secrets in the text of files; nil = as they are
}

// Write writes an archive: first MetaFile, then "event_000001_<id>.json" and so on
// in the order of the log (V1 section 11, row 20). An error that comes after the
// first byte leaves an archive without its directory, which nothing can open.
func Write(ctx context.Context, w io.Writer, log Log, a Archive) error {
	z := zip.NewWriter(w)
	meta, err := json.MarshalIndent(a.Meta, "", "  ")
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	if err := a.put(z, MetaFile, append(meta, '\n')); err != nil {
		return err
	}
	for next := int64(0); next < a.Head; {
		page, err := log.Search(ctx, store.EventQuery{Conversation: a.Conversation, AtOrAfter: &next, Limit: int(min(part, a.Head-next))})
		if err != nil {
			return err
		}
		if len(page.Items) == 0 {
			return fmt.Errorf("archive: the log ends after event %d of %d", next, a.Head)
		}
		for _, e := range page.Items {
			if err := a.put(z, FileOf(e), e.Raw); err != nil {
				return err
			}
			next = e.Seq + 1
		}
	}
	return z.Close()
}

func (a *Archive) put(z *zip.Writer, name string, raw []byte) error {
	f, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: a.Modified.UTC()})
	if err != nil {
		return err
	}
	if a.Mask != nil {
		raw = masked(raw, a.Mask)
	}
	_, err = f.Write(raw)
	return err
}

// masked hides secrets in a JSON text. The masker knows how values look inside of
// JSON; should a value cover more than one string, the result is a JSON string that
// says so, because a file that is no JSON would hide the rest of the archive from
// programs.
func masked(raw []byte, mask func(string) string) []byte {
	text := mask(string(raw))
	if text == string(raw) || json.Valid([]byte(text)) {
		return []byte(text)
	}
	return []byte(`"<left out: a secret covers the structure of this file>"`)
}

// FileOf is the name of an event's file. Ids are made by clients, too: what is not
// a letter, a digit, "-" or "_" is written as "_".
func FileOf(e conversation.Event) string {
	id := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '_'
	}, content.Head(e.ID, maxName))
	return fmt.Sprintf("event_%06d_%s.json", e.Seq+1, id)
}

// Name is the file name of a conversation's archive.
func Name(id conversation.ID) string {
	if id.IsUUID() {
		return "conversation_" + string(id) + ".zip"
	}
	return "conversation.zip"
}
