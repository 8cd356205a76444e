package docker

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// config is what a container is made from (POST /containers/create), as far as
// boxes use it.
type config struct {
	Image       string
	Hostname    string
	User        string
	WorkingDir  string
	Entrypoint  []string
	Cmd         []string
	Labels      map[string]string
	Healthcheck healthcheck
	HostConfig  hostConfig
}

type healthcheck struct{ Test []string }

type hostConfig struct {
	Mounts         []bindMount
	NetworkMode    string
	IpcMode        string
	CgroupnsMode   string
	Runtime        string `json:",omitempty"`
	CapDrop        []string
	CapAdd         []string
	SecurityOpt    []string
	Devices        []device          `json:",omitempty"`
	StorageOpt     map[string]string `json:",omitempty"`
	MaskedPaths    []string
	ReadonlyPaths  []string
	LogConfig      logConfig
	Memory         int64
	MemorySwap     int64
	NanoCPUs       int64 `json:"NanoCpus"`
	PidsLimit      int64
	Init           bool
	AutoRemove     bool
	Privileged     bool
	ReadonlyRootfs bool
}

type bindMount struct {
	Type        string
	Source      string
	Target      string
	ReadOnly    bool
	BindOptions bindOptions
}

type bindOptions struct {
	Propagation  string
	NonRecursive bool `json:",omitempty"`
}

type device struct{ PathOnHost, PathInContainer, CgroupPermissions string }

type logConfig struct {
	Type   string
	Config map[string]string
}

// container is what GET /containers/{id}/json says.
type container struct {
	ID    string `json:"Id"`
	Image string // id
	State struct {
		Running   bool
		Paused    bool
		OOMKilled bool
		Pid       int
		StartedAt time.Time
	}
	Config struct{ Labels map[string]string }
}

// listed is one line of GET /containers/json.
type listed struct {
	Names  []string
	Labels map[string]string
}

// image is what GET /images/{name}/json says.
type image struct {
	ID       string `json:"Id"`
	RepoTags []string
	Config   struct {
		Env    []string
		User   string
		Labels map[string]string
	}
}

// machine is what GET /info says.
type machine struct {
	MemoryLimit     bool
	SwapLimit       bool
	CPUCfsQuota     bool `json:"CpuCfsQuota"`
	CPUCfsPeriod    bool `json:"CpuCfsPeriod"`
	PidsLimit       bool
	Driver          string
	DriverStatus    [][2]string
	SecurityOptions []string
	MemTotal        int64
	NCPU            int
	OSType          string
	ServerVersion   string
}

// stats is what GET /containers/{id}/stats says.
type stats struct {
	Pids struct {
		Current *int64 `json:"current"`
	} `json:"pids_stats"`
	CPU struct {
		Usage struct {
			Total *int64 `json:"total_usage"` // ns
		} `json:"cpu_usage"`
	} `json:"cpu_stats"`
	Memory struct {
		Usage *int64           `json:"usage"`
		Stats map[string]int64 `json:"stats"`
	} `json:"memory_stats"`
}

func (e *engine) info(ctx context.Context) (machine, error) {
	var m machine
	err := e.get(ctx, "/info", nil, &m)
	return m, err
}

func (e *engine) create(ctx context.Context, name string, c config) error {
	var made struct {
		ID string `json:"Id"`
	}
	if err := e.post(ctx, "/containers/create", url.Values{"name": {name}}, c, &made); err != nil {
		return err
	}
	if made.ID == "" {
		return fmt.Errorf("%w: a container without an id", errNonsense)
	}
	return nil
}

// start returns when the first process runs, which may take longer than a call.
func (e *engine) start(ctx context.Context, name string) error {
	return e.await(ctx, http.MethodPost, "/containers/"+name+"/start", nil, nil, nil)
}

func (e *engine) inspect(ctx context.Context, name string) (container, error) {
	var c container
	err := e.get(ctx, "/containers/"+name+"/json", nil, &c)
	return c, err
}

// wait returns when the container does not run. It has no deadline of its own.
func (e *engine) wait(ctx context.Context, name string) error {
	return e.await(ctx, http.MethodPost, "/containers/"+name+"/wait", url.Values{"condition": {"not-running"}}, nil, nil)
}

func (e *engine) pause(ctx context.Context, name string) error {
	return e.post(ctx, "/containers/"+name+"/pause", nil, nil, nil)
}

func (e *engine) unpause(ctx context.Context, name string) error {
	return e.post(ctx, "/containers/"+name+"/unpause", nil, nil, nil)
}

// remove kills a container and removes it with its anonymous volumes.
func (e *engine) remove(ctx context.Context, name string) error {
	return e.call(ctx, http.MethodDelete, "/containers/"+name, url.Values{"force": {"1"}, "v": {"1"}}, nil, nil)
}

// containers lists all that have the labels ("name=value").
func (e *engine) containers(ctx context.Context, labels ...string) ([]listed, error) {
	var all []listed
	err := e.get(ctx, "/containers/json", url.Values{"all": {"1"}, "filters": {filter("label", labels)}}, &all)
	return all, err
}

func (e *engine) usage(ctx context.Context, name string) (stats, error) {
	var s stats
	err := e.get(ctx, "/containers/"+name+"/stats", url.Values{"stream": {"0"}, "one-shot": {"1"}}, &s)
	return s, err
}

// oomKills counts how often the engine heard that something was killed for want
// of memory, as far as it remembers.
func (e *engine) oomKills(ctx context.Context, name string, since time.Time) (int64, error) {
	data, err := json.Marshal(map[string][]string{"container": {name}, "event": {"oom"}})
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	resp, err := e.open(ctx, http.MethodGet, "/events", url.Values{"filters": {string(data)},
		"since": {moment(since)}, "until": {moment(time.Now())}}, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	lines, n := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)), int64(0)
	for {
		var event struct{ Action string }
		err := lines.Decode(&event)
		switch {
		case errors.Is(err, io.EOF):
			return n, nil
		case err != nil:
			return n, err
		case event.Action == "oom":
			n++
		}
	}
}

// moment is a time as the engine reads it: seconds and nanoseconds.
func moment(t time.Time) string { return fmt.Sprintf("%d.%09d", t.Unix(), t.Nanosecond()) }

// logs returns the last lines that the first process wrote, at most 2 KiB.
func (e *engine) logs(ctx context.Context, name string) string {
	const most = 2 << 10
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	resp, err := e.open(ctx, http.MethodGet, "/containers/"+name+"/logs", url.Values{"stdout": {"1"}, "stderr": {"1"}, "tail": {"20"}}, nil)
	if err != nil {
		return ""
	}
	defer func() { _ = resp.Body.Close() }()
	data, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	text := unframe(data)
	return strings.TrimSpace(text[max(0, len(text)-most):])
}

// unframe joins the frames of a log: a byte for the stream, three zeros, the
// length in four, and the text. What is not framed is returned as it is.
func unframe(data []byte) string {
	const head = 8
	var text strings.Builder
	for rest := data; len(rest) > 0; {
		if len(rest) < head || rest[0] > 2 || rest[1]|rest[2]|rest[3] != 0 {
			text.Write(rest)
			break
		}
		n := int(min(uint64(binary.BigEndian.Uint32(rest[4:])), uint64(len(rest)-head)))
		text.Write(rest[head : head+n])
		rest = rest[head+n:]
	}
	return text.String()
}

func (e *engine) image(ctx context.Context, ref string) (image, error) {
	var i image
	err := e.get(ctx, "/images/"+ref+"/json", nil, &i)
	return i, err
}

// images lists those that have the labels; the answer has no configurations.
func (e *engine) images(ctx context.Context, labels ...string) ([]image, error) {
	var all []image
	query := url.Values{}
	if len(labels) > 0 {
		query.Set("filters", filter("label", labels))
	}
	err := e.get(ctx, "/images/json", query, &all)
	return all, err
}

// size returns how much a container has written. The engine walks through it.
func (e *engine) size(ctx context.Context, name string) (int64, error) {
	var c struct {
		SizeRw *int64 `json:"SizeRw"`
	}
	err := e.get(ctx, "/containers/"+name+"/json", url.Values{"size": {"1"}}, &c)
	return known(c.SizeRw), err
}

// removeImage takes a name away, and removes the image if it was the last and
// nothing stands on it.
func (e *engine) removeImage(ctx context.Context, ref string) error {
	return e.call(ctx, http.MethodDelete, "/images/"+ref, nil, nil, nil)
}

func (e *engine) tag(ctx context.Context, image, repo, tag string) error {
	return e.post(ctx, "/images/"+image+"/tag", url.Values{"repo": {repo}, "tag": {tag}}, nil, nil)
}

// commit keeps the files of a container as an image. The container stands still
// meanwhile. It takes as long as its context allows.
func (e *engine) commit(ctx context.Context, name, repo, tag string, changes []string) error {
	query := url.Values{"container": {name}, "repo": {repo}, "tag": {tag}, "pause": {"1"}, "changes": changes}
	return e.await(ctx, http.MethodPost, "/commit", query, struct{}{}, nil)
}

// pull fetches an image. It takes as long as its context allows.
func (e *engine) pull(ctx context.Context, ref string) error {
	name, tag := splitReference(ref)
	resp, err := e.open(ctx, http.MethodPost, "/images/create", url.Values{"fromImage": {name}, "tag": {tag}}, nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	// The status was sent before the work began: how it went is in the last line.
	lines := json.NewDecoder(io.LimitReader(resp.Body, maxProgress))
	for {
		var line struct{ Error string }
		err := lines.Decode(&line)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case line.Error != "":
			return &refusal{status: http.StatusInternalServerError, message: line.Error}
		}
	}
}

// filter is a value of the parameter "filters".
func filter(name string, values []string) string {
	data, _ := json.Marshal(map[string][]string{name: values}) // strings always can be
	return string(data)
}
