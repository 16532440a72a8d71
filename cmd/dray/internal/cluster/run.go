package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// Run places workloads one after the other on the nodes and keeps each placement, so
// that later ones find taken what earlier ones took. Step is called after each
// workload; it may be nil.
func (c *Cluster) Run(ctx context.Context, workloads []Workload, nodes []*corev1.Node, step func()) ([]*Placement, error) {
	placements := make([]*Placement, 0, len(workloads))
	for _, w := range workloads {
		placement, err := c.Place(ctx, w, nodes)
		if err != nil {
			return nil, err
		}
		if err := c.Keep(placement); err != nil {
			return nil, err
		}
		placements = append(placements, placement)
		if step != nil {
			step()
		}
	}
	return placements, nil
}
