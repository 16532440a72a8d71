package cli

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/simulate"
)

// notLookedAt is what kube-scheduler looks at of some pods and a simulation does not.
type notLookedAt struct {
	// Pod is one of them.
	Pod     string   `json:"pod"`
	Aspects []string `json:"aspects"`
}

func (n notLookedAt) String() string {
	return fmt.Sprintf("Not looked at of pods like %s: %s.", n.Pod, strings.Join(n.Aspects, ", "))
}

// notLookedAt keeps what is not looked at of the pods of shapes.
func (s *simulation) notLookedAt(shapes []*simulate.Shape) {
	for _, shape := range shapes {
		s.addNotLookedAt(shape.Pods[0], shape.NotLookedAt())
	}
}

// notLookedAtBy keeps what a result does not look at.
func (s *simulation) notLookedAtBy(result *simulate.Result) {
	for _, n := range result.NotLookedAt {
		s.addNotLookedAt(n.Pod, n.Aspects)
	}
}

// addNotLookedAt keeps what is not looked at of a pod, once for pods of which it is the same.
func (s *simulation) addNotLookedAt(pod *corev1.Pod, aspects []string) {
	aspects = append(aspects, s.ResourcesUnknown(pod)...)
	known := slices.ContainsFunc(s.unseen, func(n notLookedAt) bool { return slices.Equal(n.Aspects, aspects) })
	if len(aspects) > 0 && !known {
		s.unseen = append(s.unseen, notLookedAt{podName(pod), aspects})
	}
}
