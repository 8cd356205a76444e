package local

// config tells a starting box what to become. The server sends it with the
// descriptors it refers to.
type config struct {
	Hostname   string    `json:"hostname"`
	WorkingDir string    `json:"working_dir"`
	Files      source    `json:"files"`  // the box's upper and work directories
	Layers     source    `json:"layers"` // the shared generation; the zero source: an image takes its place
	Image      bool      `json:"image"`  // the root is an image's: it may lack what every box has
	Fresh      bool      `json:"fresh"`  // the box has no files of its own yet
	Exe        source    `json:"exe"`    // this program; the zero source: no read-only view of it
	Overlays   []overlay `json:"overlays"`
	Binds      []bind    `json:"binds"`
	Limits     rlimits   `json:"limits"`
	CPUs       []int     `json:"cpus,omitempty"` // the processors that programs see and run on; nil: all
	Meminfo    source    `json:"meminfo"`        // shown as /proc/meminfo; the zero source: the host's
	Outbound   bool      `json:"outbound"`
	FakeOwner  bool      `json:"fake_owner"` // see seccomp.Options
	NoSetID    bool      `json:"no_set_id"`
	Memory     int64     `json:"memory"` // that the box may use, bytes; 0 = not limited
	Probe      bool      `json:"probe"`  // find out what holds, say it, and end
}

// source is a directory or file of the host: a detached mount that the server
// made, or a path that the box's own user can reach.
type source struct {
	FD   int    `json:"fd"` // index of the descriptor, from 1; 0 = Path
	Path string `json:"path,omitempty"`
	Sub  string `json:"sub,omitempty"` // a directory in what the descriptor mounts; "" = its root
}

// overlay is a visible directory with a writable layer.
type overlay struct {
	Target string `json:"target"` // inside; "/" is the root file system and comes first
	Name   string `json:"name"`   // of the directories in Files and Layers
	Lower  source `json:"lower"`  // the host's; the zero source: the layer alone
}

// bind is a directory shown as it is.
type bind struct {
	Target   string `json:"target"`
	From     source `json:"from"`
	ReadOnly bool   `json:"read_only"`
}

// rlimits bound each process, or with Processes all of the box; 0 = untouched.
type rlimits struct {
	OpenFiles uint64 `json:"open_files"`
	FileSize  uint64 `json:"file_size,omitempty"` // of each file, in bytes
	Processes uint64 `json:"processes"`
}

// facts are what a starting box found out.
type facts struct {
	TunFD      int    `json:"tun_fd,omitempty"`
	TunMissing string `json:"tun_missing,omitempty"` // why there is no network device
	// The rest is said by probes only.
	CopyUp  bool `json:"copy_up,omitempty"`  // a file of the host's can be changed inside
	Seccomp bool `json:"seccomp,omitempty"`  // the filter was installed
	Domain  int  `json:"domain,omitempty"`   // version of Landlock in force; 0 = none
	OpenMax bool `json:"open_max,omitempty"` // the open files limit was set
}

// Directories below Files.
const (
	upperDir = "upper"
	workDir  = "work"
	tunNode  = "tun"
)

// rootName names the root file system among the overlays.
const rootName = "root"
