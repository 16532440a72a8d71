package pool

import "slices"

// GroupState is what the devices that were put on a counter set so far have in
// common: nothing yet, no groups at all, or a set of compatibility groups. It is a
// value: Add returns a new one, so undoing is keeping the old. The zero GroupState
// is that of a counter set without devices.
type GroupState struct {
	occupied bool
	// shared is sorted. If occupied, nil means devices without groups; empty but
	// not nil means devices that should not be together and admit no other.
	shared []string
}

// Admits reports whether a device that declares the groups, sorted, may join.
// Devices without groups only join devices without groups.
func (s GroupState) Admits(groups []string) bool {
	if !s.occupied {
		return true
	}
	if len(groups) == 0 || s.shared == nil {
		return len(groups) == 0 && s.shared == nil
	}
	return len(intersection(s.shared, groups)) > 0
}

// Add returns the state after a device with the groups, sorted, has joined. If it
// should not have (the cluster may hold such allocations), a device without groups
// changes nothing, nor does any device that joins devices without groups.
func (s GroupState) Add(groups []string) GroupState {
	switch {
	case !s.occupied && len(groups) == 0:
		return GroupState{occupied: true}
	case !s.occupied:
		return GroupState{occupied: true, shared: groups}
	case s.shared == nil || len(groups) == 0:
		return s
	}
	return GroupState{occupied: true, shared: intersection(s.shared, groups)}
}

// Equal reports whether two states admit the same devices, now and later.
func (s GroupState) Equal(other GroupState) bool {
	return s.occupied == other.occupied && (s.shared == nil) == (other.shared == nil) &&
		slices.Equal(s.shared, other.shared)
}

// AppendKey appends what equal states have in common and others do not.
func (s GroupState) AppendKey(to []byte) []byte {
	switch {
	case !s.occupied:
		return append(to, 0)
	case s.shared == nil:
		return append(to, 1)
	}
	to = append(to, 2)
	for _, group := range s.shared {
		to = append(append(to, group...), 0)
	}
	return append(to, 0)
}

// intersection is never nil.
func intersection(a, b []string) []string {
	common := make([]string, 0, min(len(a), len(b)))
	for _, group := range a {
		if slices.Contains(b, group) {
			common = append(common, group)
		}
	}
	return common
}

// sortedSet returns the names sorted and without repeats; nil if there are none.
func sortedSet(names []string) []string {
	if len(names) == 0 {
		return nil
	}
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}

// Shared returns the compatibility groups that the devices on a counter set have in common: nil
// if they declare none, empty if they have none in common. Occupied is false if there are no
// devices.
func (s GroupState) Shared() (groups []string, occupied bool) { return s.shared, s.occupied }
