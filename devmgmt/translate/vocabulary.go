// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/dray-project/dray/devmgmt/expression"
	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

// uses says how a driver's devices use a name: as an attribute, an amount, a resource, or several
// of these.
type uses struct{ plain, amount, resource bool }

// vocabulary has the names that the devices of one driver use, in the prototype.
type vocabulary struct {
	names map[string]uses
	// shared is set if a device has resources of its own. v1 may then allocate several shares of
	// one device where the prototype requires several devices.
	shared bool
	// partitioned is set if a device consumes resources of its pool. v1 also charges these for
	// admin access, unless the device is in use already.
	partitioned bool
}

// vocabularies is by driver. A driver without pools has an empty vocabulary.
type vocabularies map[string]*vocabulary

func (v vocabularies) of(driver string) *vocabulary {
	if v[driver] == nil {
		v[driver] = &vocabulary{names: make(map[string]uses)}
	}
	return v[driver]
}

func vocabulariesOf(pools []*v1alpha1.DevicePool) vocabularies {
	all := make(vocabularies)
	for _, pool := range pools {
		v := all.of(pool.Spec.Driver)
		v.addAttributes(pool.Spec.Attributes)
		for i := range pool.Spec.Devices {
			device := &pool.Spec.Devices[i]
			v.addAttributes(device.Attributes)
			v.partitioned = v.partitioned || len(device.Requests) > 0
			for _, r := range device.Resources {
				use := v.names[r.Name]
				use.resource = true
				v.names[r.Name], v.shared = use, true
			}
		}
	}
	return all
}

func (v *vocabulary) addAttributes(list []v1alpha1.Attribute) {
	for _, attribute := range list {
		use := v.names[attribute.Name]
		if attribute.QuantityValue != nil {
			use.amount = true
		} else {
			use.plain = true
		}
		v.names[attribute.Name] = use
	}
}

var (
	identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// anyName matches names that the extended allocator supports, too.
	anyName = regexp.MustCompile(`^[A-Za-z0-9_]([-A-Za-z0-9_.]*[A-Za-z0-9_])?$`)
)

// maxName is the maximum length of a name that need not be valid in v1.
const maxName = 63

// commonDomain is the domain of attributes that devices of several drivers must agree in. In v1,
// attributes without a domain have that of their driver, which differs.
const commonDomain = v1alpha1.GroupName

// naming converts names to v1, or to the extended allocator.
type naming struct{ extended bool }

// qualified returns the v1 name of a driver's attribute or resource, as domain and identifier.
func (n naming) qualified(name, driver string) (domain, id string, err error) {
	domain, id, isQualified := strings.Cut(name, "/")
	switch {
	case !isQualified:
		domain, id = driver, name
	case domain == driver:
		return "", "", fmt.Errorf("v1 does not tell it from %s, because %s is the driver", id, domain)
	case len(domain) > resourceapi.DeviceMaxDomainLength || len(validation.IsDNS1123Subdomain(domain)) > 0:
		return "", "", fmt.Errorf("v1 wants a DNS name of at most %d characters before the slash", resourceapi.DeviceMaxDomainLength)
	}
	switch {
	case n.extended && len(id) <= maxName && anyName.MatchString(id):
	case n.extended:
		return "", "", fmt.Errorf("want at most %d letters, digits, hyphens, dots and underscores", maxName)
	case len(id) > resourceapi.DeviceMaxIDLength || !identifier.MatchString(id):
		return "", "", fmt.Errorf("v1 wants a C identifier of at most %d characters", resourceapi.DeviceMaxIDLength)
	}
	return domain, id, nil
}

// keyIn returns the name as a key in a slice, where v1 adds the driver's domain.
func (n naming) keyIn(name, driver string) (resourceapi.QualifiedName, error) {
	_, _, err := n.qualified(name, driver)
	return resourceapi.QualifiedName(name), err
}

// nameOf is the reverse of keyIn and qualified.
func nameOf(domain, id, driver string) string {
	if domain == "" || domain == driver {
		return id
	}
	return domain + "/" + id
}

// place returns the location in v1 of an attribute that an expression reads.
func (v *vocabulary) place(name, driver string, by naming) (expression.Place, error) {
	domain, id, err := by.qualified(name, driver)
	use := v.names[name]
	switch {
	case err != nil:
		return expression.Place{}, err
	case use.amount && use.plain:
		return expression.Place{}, errors.New("some devices have an amount there and others do not, which v1 keeps in different places")
	case use.amount && use.resource:
		return expression.Place{}, errors.New("some devices have it as a resource, which v1 does not tell from the attribute")
	}
	return expression.Place{Domain: domain, ID: id, Capacity: use.amount}, nil
}
