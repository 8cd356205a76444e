package v1

import (
	"net/http"

	"parley/internal/api/httpkit"
	"parley/internal/fault"
	"parley/internal/sandbox"
)

// sandboxLimits bound a sandbox; null is the backend's own bound.
type sandboxLimits struct {
	CPUs        *float64 `json:"cpus"`
	MemoryBytes *int64   `json:"memory_bytes"`
	Processes   *int64   `json:"processes"`
	OpenFiles   *uint64  `json:"open_files"`
	DiskBytes   *int64   `json:"disk_bytes"`
	Inodes      *int64   `json:"inodes"`
}

func renderLimits(l sandbox.Limits) sandboxLimits {
	return sandboxLimits{given(l.CPUs), given(l.MemoryBytes), given(l.Processes), given(l.OpenFiles), given(l.DiskBytes), given(l.Inodes)}
}

func given[T float64 | int64 | uint64](n T) *T {
	if n == 0 {
		return nil
	}
	return &n
}

// sandboxUsage is what a sandbox takes; null is not known.
type sandboxUsage struct {
	CPUSeconds  *float64      `json:"cpu_seconds"`
	MemoryBytes *int64        `json:"memory_bytes"`
	Processes   *int64        `json:"processes"`
	DiskBytes   *int64        `json:"disk_bytes"`
	Inodes      *int64        `json:"inodes"`
	OOMKills    *int64        `json:"oom_kills"`
	Limits      sandboxLimits `json:"limits"`
}

func figure(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

func (h *handlers) sandboxUsage(w http.ResponseWriter, r *httpkit.Request) error {
	box, err := h.sandbox(r)
	if err != nil {
		return err
	}
	limits, err := h.Fleet.LimitsOf(box)
	if err != nil {
		return err
	}
	u, err := h.Fleet.Usage(r.Context(), r.Principal.UserID, box.ID)
	if fault.Is(err, fault.NotFound) { // deleted, or removed from outside, just now
		return httpkit.NotFound("Sandbox")
	}
	if err != nil {
		return err
	}
	out := sandboxUsage{MemoryBytes: figure(u.MemoryBytes), Processes: figure(u.Processes), DiskBytes: figure(u.DiskBytes),
		Inodes: figure(u.Inodes), OOMKills: figure(u.OOMKills), Limits: renderLimits(limits)}
	if u.CPU >= 0 {
		seconds := u.CPU.Seconds()
		out.CPUSeconds = &seconds
	}
	return httpkit.JSON(w, http.StatusOK, out)
}
