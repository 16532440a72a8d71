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

// uses says what a name stands for among the devices of a driver: an attribute, an amount, a resource, or several of these.
type uses struct{ plain, amount, resource bool }

// vocabulary is what the devices of one driver have, by the names of the prototype.
type vocabulary struct {
	names map[string]uses
	// shared is set if some device has resources of its own: v1 may then take several shares of
	// one device where the prototype wants several devices.
	shared bool
	// partitioned is set if some device takes resources of its pool: v1 charges these for admin
	// access, too, unless the device is in use already.
	partitioned bool
}

// vocabularies are known by driver. A driver without pools has an empty one.
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
	// anyName is what the allocator understands, too: it compares names, whatever characters they have.
	anyName = regexp.MustCompile(`^[A-Za-z0-9_]([-A-Za-z0-9_.]*[A-Za-z0-9_])?$`)
)

// mostOfName is how long a name may be where it does not have to be one of v1.
const mostOfName = 63

// commonDomain has the names of attributes without a domain that devices of several drivers are to agree in. v1 has
// another domain for each driver.
const commonDomain = v1alpha1.GroupName

// naming says what v1 calls things, or the allocator if it is extended.
type naming struct{ extended bool }

// qualified returns what v1 calls an attribute or a resource of the driver: domain and
// identifier.
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
	case n.extended && len(id) <= mostOfName && anyName.MatchString(id):
	case n.extended:
		return "", "", fmt.Errorf("want at most %d letters, digits, hyphens, dots and underscores", mostOfName)
	case len(id) > resourceapi.DeviceMaxIDLength || !identifier.MatchString(id):
		return "", "", fmt.Errorf("v1 wants a C identifier of at most %d characters", resourceapi.DeviceMaxIDLength)
	}
	return domain, id, nil
}

// keyIn returns the name as the key of a map in a slice, where v1 adds the domain of the driver.
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

// place returns where v1 has an attribute that an expression reads.
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
