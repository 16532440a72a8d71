package adversary

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

var constrainedNames = []resourceapi.FullyQualifiedName{
	"gpu.example.com/model", "gpu.example.com/numa", "gpu.example.com/links", "gpu.example.com/lanes",
	"nic.example.com/numa", "nic.example.com/links", "shared.example.com/root",
}

func (m *mutator) addConstraint() {
	claim, name := m.claim(), pick(m, constrainedNames)
	added := resourceapi.DeviceConstraint{Requests: m.covered(claim)}
	if m.chance(0.5) {
		added.MatchAttribute = &name
	} else {
		added.DistinctAttribute = &name
	}
	claim.Constraints = append(claim.Constraints, added)
}

// covered are some requests of a claim, or all.
func (m *mutator) covered(claim *resourceapi.DeviceClaim) []string {
	if m.chance(0.4) {
		return nil
	}
	var names []string
	for i := range claim.Requests {
		if m.chance(0.6) {
			names = append(names, claim.Requests[i].Name)
		}
	}
	return names
}

func (m *mutator) constraint() (*resourceapi.DeviceClaim, *resourceapi.DeviceConstraint) {
	claim := m.claim()
	if len(claim.Constraints) == 0 {
		return claim, nil
	}
	return claim, &claim.Constraints[m.rand.IntN(len(claim.Constraints))]
}

func (m *mutator) dropConstraint() {
	if claim := m.claim(); len(claim.Constraints) > 0 {
		i := m.rand.IntN(len(claim.Constraints))
		claim.Constraints = slices.Delete(claim.Constraints, i, i+1)
	}
}

// turnConstraint makes a matchAttribute a distinctAttribute and the other way round.
func (m *mutator) turnConstraint() {
	if _, c := m.constraint(); c != nil {
		c.MatchAttribute, c.DistinctAttribute = c.DistinctAttribute, c.MatchAttribute
	}
}

func (m *mutator) coverOthers() {
	if claim, c := m.constraint(); c != nil {
		c.Requests = m.covered(claim)
	}
}

// mend drops what refers to requests that are gone.
func mend(claim *resourceapi.DeviceClaim) {
	gone := func(name string) bool { return !slices.Contains(namesIn(claim), name) }
	claim.Config = nil
	claim.Constraints = slices.DeleteFunc(claim.Constraints, func(c resourceapi.DeviceConstraint) bool {
		return slices.ContainsFunc(c.Requests, gone)
	})
}

func (m *mutator) mendAll() {
	for _, claim := range m.c.Claims {
		mend(&claim.Spec.Devices)
	}
}

func namesIn(claim *resourceapi.DeviceClaim) []string {
	var names []string
	for _, r := range claim.Requests {
		names = append(names, r.Name)
		for _, s := range r.FirstAvailable {
			names = append(names, r.Name+"/"+s.Name)
		}
	}
	return names
}

func (m *mutator) copyClaim() {
	claim := pick(m, m.c.Claims).DeepCopy()
	claim.Name = freshName("claim-", m.claimNamed)
	claim.UID = types.UID(claim.Name)
	m.c.Claims = append(m.c.Claims, claim)
}

func (m *mutator) claimNamed(name string) bool {
	return slices.ContainsFunc(m.c.Claims, func(c *resourceapi.ResourceClaim) bool { return c.Name == name })
}

func (m *mutator) dropClaim() {
	if i := m.rand.IntN(len(m.c.Claims)); len(m.c.Claims) > 1 {
		m.c.Claims = slices.Delete(m.c.Claims, i, i+1)
	}
}

func (m *mutator) swapClaims() {
	i, j := m.rand.IntN(len(m.c.Claims)), m.rand.IntN(len(m.c.Claims))
	m.c.Claims[i], m.c.Claims[j] = m.c.Claims[j], m.c.Claims[i]
}

// splitClaim moves the later requests of a claim to a new one.
func (m *mutator) splitClaim() {
	claim := pick(m, m.c.Claims)
	n := len(claim.Spec.Devices.Requests)
	if n < 2 {
		return
	}
	later, at := claim.DeepCopy(), 1+m.rand.IntN(n-1)
	later.Name = freshName("claim-", m.claimNamed)
	later.UID = types.UID(later.Name)
	later.Spec.Devices.Requests = later.Spec.Devices.Requests[at:]
	claim.Spec.Devices.Requests = claim.Spec.Devices.Requests[:at]
	m.c.Claims = append(m.c.Claims, later)
	m.mendAll()
}
