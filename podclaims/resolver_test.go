// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package podclaims_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/podclaims"
)

// random draws claims of a few names, of which most are made for a few pods.
type random struct{ *rand.Rand }

var entries = []corev1.PodResourceClaim{
	{Name: "x", ResourceClaimTemplateName: ptr.To("template")},
	{Name: "y", ResourceClaimTemplateName: ptr.To("template")},
	{Name: "named", ResourceClaimName: ptr.To("claim-1")},
}

func podNumbered(i int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("pod-", i), UID: types.UID(fmt.Sprint(i))}}
}

func (r random) claim() *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("claim-", r.IntN(8))}}
	if r.IntN(3) > 0 {
		claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(podNumbered(r.IntN(3)), corev1.SchemeGroupVersion.WithKind("Pod"))}
		claim.Annotations = map[string]string{resourceapi.PodResourceClaimAnnotation: entries[r.IntN(2)].Name}
	}
	return claim
}

// changes draws names of claims that are gone, and claims that are set, one of a name, and does that to a copy of claims.
func (r random) changes(claims map[string]*resourceapi.ResourceClaim) (gone []types.NamespacedName, set []*resourceapi.ResourceClaim, next map[string]*resourceapi.ResourceClaim) {
	next = maps.Clone(claims)
	gone = append(gone, types.NamespacedName{Namespace: "default", Name: "nowhere"})
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		if r.IntN(4) == 0 {
			gone = append(gone, types.NamespacedName{Namespace: "default", Name: name})
			delete(next, name)
		}
	}
	for range r.IntN(3) {
		if claim := r.claim(); !slices.ContainsFunc(set, func(other *resourceapi.ResourceClaim) bool { return other.Name == claim.Name }) {
			set = append(set, claim)
			next[claim.Name] = claim
		}
	}
	return gone, set, next
}

// emptyResolver knows the template.
func emptyResolver() *podclaims.Resolver {
	r := podclaims.NewResolver(nil)
	r.SetTemplate(&resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "template"}})
	return r
}

// likeNew compares with a Resolver that was made of the claims.
func likeNew(t *testing.T, when string, r *podclaims.Resolver, claims map[string]*resourceapi.ResourceClaim) {
	t.Helper()
	fresh := emptyResolver()
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		fresh.SetClaim(claims[name])
	}
	for i := range 8 {
		key := types.NamespacedName{Namespace: "default", Name: fmt.Sprint("claim-", i)}
		if r.Claim(key) != fresh.Claim(key) {
			t.Fatalf("%s: claim %s is %p, want %p", when, key, r.Claim(key), fresh.Claim(key))
		}
	}
	for i := range 3 {
		for _, entry := range entries {
			pod := podNumbered(i)
			if got, want := r.Key(pod, entry), fresh.Key(pod, entry); got != want {
				t.Fatalf("%s: %s of pod %d is %s, want %s", when, entry.Name, i, got, want)
			}
			got, err := r.Resolve(pod, entry)
			want, wantErr := fresh.Resolve(pod, entry)
			if fmt.Sprint(err) != fmt.Sprint(wantErr) || (got == nil) != (want == nil) || got != nil && got.Name != want.Name {
				t.Fatalf("%s: %s of pod %d: %v, %v; want %v, %v", when, entry.Name, i, got, err, want, wantErr)
			}
		}
	}
}

// A Resolver after changes finds what one finds that was made of the claims there are then, and the one before what it found.
func TestNextIsLikeNew(t *testing.T) {
	g := random{rand.New(rand.NewPCG(3, 5))}
	compared, refused := 0, 0
	for range 400 {
		r, claims := emptyResolver(), make(map[string]*resourceapi.ResourceClaim)
		for range g.IntN(3) {
			if claim := g.claim(); claims[claim.Name] == nil {
				claims[claim.Name] = claim
				r.SetClaim(claim)
			}
		}
		for step := range 6 {
			gone, set, next := g.changes(claims)
			after, ok := r.Next(gone, set)
			if twice(next) != !ok && !twice(claims) {
				t.Fatalf("step %d: two claims for the same: %t, but Next says %t", step, twice(next), ok)
			}
			if !ok {
				refused++
				break
			}
			likeNew(t, "after", after, next)
			likeNew(t, "before", r, claims)
			r, claims = after, next
			compared++
		}
	}
	if compared < 300 || refused < 30 {
		t.Errorf("%d were compared, %d refused: too few", compared, refused)
	}
}

// twice reports whether two claims are made for the same entry of a pod.
func twice(claims map[string]*resourceapi.ResourceClaim) bool {
	made := make(map[string]bool)
	for _, claim := range claims {
		if owner := metav1.GetControllerOf(claim); owner != nil {
			key := owner.Name + "/" + claim.Annotations[resourceapi.PodResourceClaimAnnotation]
			if made[key] {
				return true
			}
			made[key] = true
		}
	}
	return false
}
