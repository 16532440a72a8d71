// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"
)

// briefly is how long each row is measured if nothing else is said. There are several hundred rows.
const briefly = "2ms"

// patience is how long upstream may think about an input that is hard: less if rows are measured briefly, as there are dozens for
// which no time would do.
var patience = 2 * time.Second

const brieflyPatient = 100 * time.Millisecond

// TestMain has all rows end within minutes, so that go test -bench . shows them. A flag -test.benchtime says otherwise.
func TestMain(m *testing.M) {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.benchtime" })
	if !said {
		patience = brieflyPatient
		if err := flag.Set("test.benchtime", briefly); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	m.Run()
}
