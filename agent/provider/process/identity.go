// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"math"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/node/errdefs"
	"github.com/dray-project/dray/agent/provider/process/internal/supervisor"
)

// nobody is the default user and group of containers. There is no image that could set one.
const nobody = 65534

// identityOf returns the user and groups of a container.
func (p *Provider) identityOf(pod *corev1.Pod, container *corev1.Container) (supervisor.Identity, error) {
	of, mine := ptr.Deref(pod.Spec.SecurityContext, corev1.PodSecurityContext{}), ptr.Deref(container.SecurityContext, corev1.SecurityContext{})
	defaultUser, defaultGroup := int64(nobody), int64(nobody)
	if os.Geteuid() != 0 {
		defaultUser, defaultGroup = int64(os.Geteuid()), int64(os.Getegid())
	}
	user := *firstOf(mine.RunAsUser, of.RunAsUser, &defaultUser)
	group := *firstOf(mine.RunAsGroup, of.RunAsGroup, &defaultGroup)
	groups := slices.Clone(of.SupplementalGroups)
	if of.FSGroup != nil {
		groups = append(groups, *of.FSGroup)
	}
	if nonRoot := firstOf(mine.RunAsNonRoot, of.RunAsNonRoot); nonRoot != nil && *nonRoot && user == 0 {
		return supervisor.Identity{}, errdefs.InvalidInput("securityContext.runAsNonRoot: is set, and runAsUser is 0")
	}
	out := supervisor.Identity{}
	for _, id := range append([]int64{user, group}, groups...) {
		if id < 0 || id > math.MaxInt32 {
			return supervisor.Identity{}, errdefs.InvalidInputf("securityContext: %d is not the number of a user or a group", id)
		}
	}
	out.User, out.Group = uint32(user), uint32(group)
	for _, id := range groups {
		out.Groups = append(out.Groups, uint32(id))
	}
	return out, p.checkIdentity(out)
}

// checkIdentity refuses users and groups that the agent must not or cannot set.
func (p *Provider) checkIdentity(identity supervisor.Identity) error {
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		switch {
		case identity.User != uint32(uid):
			return errdefs.InvalidInputf("securityContext.runAsUser: %d: dray-agent is not root, and runs processes as its own user %d", identity.User, uid)
		case identity.Group != uint32(gid):
			return errdefs.InvalidInputf("securityContext.runAsGroup: %d: dray-agent is not root, and runs processes with its own group %d", identity.Group, gid)
		case len(identity.Groups) > 0:
			return errdefs.InvalidInputf("securityContext: group %d: dray-agent is not root, and cannot add groups to processes", identity.Groups[0])
		}
		return nil
	}
	if p.options.AllowRoot {
		return nil
	}
	const root = "is root's, and dray-agent was not told that pods may be root"
	switch {
	case identity.User == 0:
		return errdefs.InvalidInput("securityContext.runAsUser: 0 " + root)
	case identity.Group == 0:
		return errdefs.InvalidInput("securityContext.runAsGroup: 0 " + root)
	case slices.Contains(identity.Groups, 0):
		return errdefs.InvalidInput("securityContext: group 0 among supplementalGroups and fsGroup " + root)
	}
	return nil
}

// checkOwnGroups returns an error if the agent has supplementary groups that its processes would
// inherit.
func checkOwnGroups() error {
	if os.Geteuid() == 0 {
		return nil
	}
	groups, err := os.Getgroups()
	if err != nil {
		return fmt.Errorf("groups of dray-agent: %w", err)
	}
	for _, group := range groups {
		if group != os.Getegid() {
			return errdefs.InvalidInputf("process provider: dray-agent is not root, and has the supplementary group %d, which processes would have, too", group)
		}
	}
	return nil
}

func firstOf[T any](all ...*T) *T {
	for _, each := range all {
		if each != nil {
			return each
		}
	}
	return nil
}
