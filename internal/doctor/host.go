package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds below which a finding is worth a word.
const (
	minFreeBytes  = 256 << 20
	lowFreeBytes  = 2 << 30
	minFreeInodes = 1000
	lowFreeInodes = 50000
	minOpenFiles  = 256
	lowOpenFiles  = 4096
	maxClockSkew  = 5 * time.Minute
)

// dataDirectory checks that the server can keep its data there, privately.
func (d *doctor) dataDirectory(context.Context) Finding {
	f := Finding{Check: "data_directory", Level: OK, Found: d.Data}
	info, err := os.Stat(d.Data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		parent := nearest(d.Data)
		if unix.Access(parent, unix.W_OK|unix.X_OK) != nil {
			f.Level, f.Found = Missing, d.Data+" does not exist and cannot be made: "+parent+" is not writable"
			f.Follows, f.Mend = "the server cannot start", "choose another directory with --data or PARLEY_DATA"
			return f
		}
		f.Found = d.Data + " does not exist yet; the server will make it"
		return f
	case err != nil || !info.IsDir():
		f.Level, f.Found = Missing, d.Data+" is no directory that can be used"
		f.Follows, f.Mend = "the server cannot start", "choose another directory with --data or PARLEY_DATA"
		return f
	}
	if err := tryFile(d.Data); err != nil {
		f.Level, f.Found = Missing, "no file can be made in "+d.Data+": "+err.Error()
		f.Follows, f.Mend = "the server cannot start", "give the directory to the user who runs parley: chown -R USER "+d.Data
		return f
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		f.Level, f.Found = Limited, fmt.Sprintf("%s has mode %04o", d.Data, perm)
		f.Follows, f.Mend = "other users of this machine can look into it", "chmod 700 "+d.Data
	}
	return f
}

// nearest is the path itself or the closest directory above it that exists.
func nearest(path string) string {
	for {
		if _, err := os.Stat(path); err == nil || path == filepath.Dir(path) {
			return path
		}
		path = filepath.Dir(path)
	}
}

func tryFile(dir string) error {
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		var path *fs.PathError
		if errors.As(err, &path) {
			return path.Err
		}
		return err
	}
	_, err = f.WriteString("x")
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name()))
}

func (d *doctor) diskSpace(context.Context) Finding {
	f := Finding{Check: "disk"}
	place := nearest(d.Data)
	var stat unix.Statfs_t
	if err := unix.Statfs(place, &stat); err != nil {
		f.Level, f.Found = Skipped, place+": "+err.Error()
		return f
	}
	free := int64(stat.Bavail) * stat.Bsize
	return judgeDisk(place, free, int64(stat.Ffree), stat.Files > 0)
}

// judgeDisk compares what is free with what Parley needs. Some file systems do
// not count inodes.
func judgeDisk(place string, free, inodes int64, counted bool) Finding {
	f := Finding{Check: "disk", Level: OK, Found: fmt.Sprintf("%.1f GiB free at %s", float64(free)/(1<<30), place)}
	if counted {
		f.Found += fmt.Sprintf(", %d inodes", inodes)
	}
	switch {
	case free < minFreeBytes || counted && inodes < minFreeInodes:
		f.Level, f.Follows = Missing, "events cannot be stored for long: runs pause when the disk is full"
	case free < lowFreeBytes || counted && inodes < lowFreeInodes:
		f.Level, f.Follows = Limited, "what agents install and build may fill the disk"
	default:
		return f
	}
	f.Mend = "free some, or choose a larger disk with --data"
	return f
}

func (d *doctor) openFiles(context.Context) Finding {
	f := Finding{Check: "open_files"}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		f.Level, f.Found = Skipped, err.Error()
		return f
	}
	return judgeOpenFiles(limit.Max)
}

// judgeOpenFiles looks at the hard limit: the server raises the soft one to it.
func judgeOpenFiles(limit uint64) Finding {
	f := Finding{Check: "open_files", Level: OK, Found: fmt.Sprintf("up to %d open files", limit)}
	switch {
	case limit < minOpenFiles:
		f.Level = Missing
	case limit < lowOpenFiles:
		f.Level = Limited
	default:
		return f
	}
	f.Follows = "every live stream and every sandbox needs some"
	f.Mend = "raise the hard limit: ulimit -Hn 65536, or LimitNOFILE=65536 in a systemd unit"
	return f
}

// oldest is a time before any build of this program.
func oldest() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

func (d *doctor) clock(context.Context) Finding {
	now := d.Now()
	f := Finding{Check: "clock", Level: OK, Found: now.UTC().Format(time.RFC3339)}
	if now.Before(oldest()) || now.Year() > 2100 {
		f.Level = Missing
		f.Follows = "certificates of model endpoints count as invalid, and times in events are wrong"
		f.Mend = "set the clock: timedatectl set-ntp true, or date -s"
	}
	return f
}

// model asks a model endpoint for anything: every HTTP answer shows that it is there.
func (d *doctor) model(ctx context.Context) Finding {
	f := Finding{Check: "llm_endpoint"}
	if d.LLM == "" {
		f.Level, f.Found = Skipped, "no endpoint was named; check one with --llm URL"
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(d.LLM, "/")+"/models", nil)
	if err != nil {
		f.Level, f.Found = Missing, "the URL is malformed"
		f.Mend = "write it as https://host/v1"
		return f
	}
	resp, err := d.HTTP.Do(req)
	if err != nil {
		f.Level, f.Found = Missing, req.URL.Host+" does not answer: "+innermost(err)
		f.Follows = "no run can reach this model"
		f.Mend = "check the URL, DNS, the firewall and HTTPS_PROXY of the server's environment"
		return f
	}
	defer func() { _ = resp.Body.Close() }()
	f.Level, f.Found = OK, fmt.Sprintf("%s answers (HTTP %d)", req.URL.Host, resp.StatusCode)
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil && date.Sub(d.Now()).Abs() > maxClockSkew {
		f.Level = Limited
		f.Found += fmt.Sprintf(", and its clock differs from this one by %s", date.Sub(d.Now()).Abs().Round(time.Second))
		f.Follows, f.Mend = "signed requests and certificates may be refused", "set the clock: timedatectl set-ntp true"
	}
	return f
}

// innermost drops the method and URL that net/http puts before the reason.
func innermost(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err.Error()
	}
	return err.Error()
}

func (d *doctor) server(ctx context.Context) Finding {
	f := Finding{Check: "server"}
	if d.Server == nil {
		f.Level, f.Found = Skipped, "not asked"
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	if err := d.Server(ctx); err != nil {
		text, mend, _ := strings.Cut(err.Error(), "\n")
		f.Level, f.Found, f.Mend = Skipped, text, mend
		if d.ServerNeeded {
			f.Level = Missing
		}
		return f
	}
	f.Level, f.Found = OK, "a server answers and accepts the key"
	return f
}
