package local

// WithoutIDMap returns options for a backend that works as on a kernel without
// id-mapped mounts.
func WithoutIDMap(o Options) Options {
	o.noIDMap = true
	return o
}

// What programs inside are told of the machine.
var (
	Meminfo = meminfo
	Cores   = cores
	Ranges  = ranges
	Chosen  = chosen
	Pinned  = pinned
)

// WithoutDisks returns options for a backend that works as on a machine without
// loop devices.
func WithoutDisks(o Options) Options {
	o.noDisks = true
	return o
}
