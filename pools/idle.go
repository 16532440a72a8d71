package pools

// Idle reports whether no device of the pool is in use.
func (u *PoolUsage) Idle() bool { return u.exclusive.None() && u.shared.None() }

// Bits returns which devices are in use, as bits by DeviceIndex, if there is nothing
// else to say: the pool has no counters, at most 64 devices, and no shares in use.
func (u *PoolUsage) Bits() (bits uint64, ok bool) {
	if len(u.Left) > 0 || len(u.pool.Devices) > 64 || u.shared.Any() {
		return 0, false
	}
	if words := u.exclusive.Words(); len(words) > 0 {
		bits = words[0]
	}
	return bits, true
}
