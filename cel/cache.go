// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"golang.org/x/sync/singleflight"
	"k8s.io/utils/lru"
)

// Cache compiles expressions and keeps the most recently used programs, as well as the
// reasons why expressions do not compile. It is safe for concurrent use.
type Cache struct {
	compiled *lru.Cache
	flight   singleflight.Group
}

// NewCache returns a cache for a number of expressions, at least one. Expressions are compiled as stored
// expressions: with every feature of the environment. A feature gate only limits what new objects may contain.
// Turning it off breaks no stored expression.
func NewCache(size int) *Cache {
	return &Cache{compiled: lru.New(max(size, 1))}
}

// Selector compiles an expression that decides whether a device matches. The error is
// a *[CompileError].
func (c *Cache) Selector(expression string) (*Program, error) {
	return c.get(cacheKey{"selector", expression}, yieldsBool)
}

// Derived compiles an expression that computes an attribute. The error is
// a *[CompileError].
func (c *Cache) Derived(expression string) (*Program, error) {
	return c.get(cacheKey{"derived", expression}, yieldsAttribute)
}

type cacheKey struct{ use, expression string }

// outcome is a program or the reason why there is none.
type outcome struct {
	program *Program
	err     error
}

// get compiles an expression at most once while it stays in the cache.
func (c *Cache) get(key cacheKey, accepts outputCheck) (*Program, error) {
	if known, found := c.compiled.Get(key); found {
		return known.(outcome).program, known.(outcome).err
	}
	got, _, _ := c.flight.Do(key.use+" "+key.expression, func() (any, error) {
		program, err := compile(key.expression, accepts)
		c.compiled.Add(key, outcome{program, err})
		return outcome{program, err}, nil
	})
	return got.(outcome).program, got.(outcome).err
}
