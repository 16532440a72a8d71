// Package faults stands between a client and an API server, and spoils chosen requests:
// it answers them with an error, or lets them through and loses the answer. The rest,
// watches included, passes unchanged.
package faults
