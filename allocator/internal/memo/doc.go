// Package memo has small memories that many goroutines share: bounded, and read without a lock.
package memo
