// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package outlook

import (
	"bytes"
	_ "embed"
	"go/format"
	"math"
	"runtime"
	"time"
)

// Machine tells how fast a machine is.
type Machine struct {
	// Cores is the number of processors.
	Cores int
	// Speed is that of one processor; that of the reference machine is 1.
	Speed float64
}

// Reference is the machine that the durations of the parts were measured on.
var Reference = Machine{Cores: 2, Speed: 1}

// referenceRounds is how often per second one processor of the reference machine parses and prints this package's list
// of parts. Scanning, allocating and following pointers is what a compiler does most of its time.
const referenceRounds = 1850

//go:embed parts.go
var sample []byte

// Measure finds out how fast this machine is. It computes for the given time; a fifth of a second is enough. What else
// runs on the machine slows it down, as it will slow down the work.
func Measure(duration time.Duration) Machine {
	rounds, begin := 0, time.Now()
	for time.Since(begin) < duration {
		if formatted, err := format.Source(sample); err != nil ||
			!bytes.Contains(formatted, []byte("package outlook")) {
			return Machine{Cores: runtime.NumCPU(), Speed: Reference.Speed}
		}
		rounds++
	}
	return Machine{Cores: runtime.NumCPU(), Speed: float64(rounds) / time.Since(begin).Seconds() / referenceRounds}
}

// scale is by what the durations of the reference machine have to be multiplied.
func (m Machine) scale(kind Kind) float64 {
	if m.Speed <= 0 || m.Cores <= 0 {
		return 1
	}
	switch kind {
	case Compile:
		// Twice the processors do not halve it: what links, and what others wait for, runs on one.
		return math.Pow(float64(Reference.Cores)/float64(m.Cores), 0.8) / m.Speed
	case Start:
		return (1 + math.Pow(float64(Reference.Cores)/float64(m.Cores), 0.8)/m.Speed) / 2
	default:
		return 1
	}
}

// First returns how long a part takes on the machine when it has to be made for the first time.
func (m Machine) First(part Part) time.Duration { return m.expect(part.First, part.Kind) }

// Again returns how long a part takes on the machine when it only has to be found.
func (m Machine) Again(part Part) time.Duration { return m.expect(part.Again, part.Kind) }

func (m Machine) expect(onReference time.Duration, kind Kind) time.Duration {
	return time.Duration(float64(onReference) * m.scale(kind))
}
