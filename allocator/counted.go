package allocator

// counted is what the devices of a roster draw on.
type counted struct {
	// components are what devices that share counter sets have in common.
	components  []component
	componentOf []int32 // by device, -1 without counters
	bins        []bin
	binOf       []int32 // by device, -1 if it draws on no counters
}

// counters returns what the devices draw on, worked out when it is first asked for.
func (r *roster) counters() *counted {
	r.count.Do(func() {
		r.counted.addComponents(r)
		r.counted.addBins(r)
	})
	return &r.counted
}
