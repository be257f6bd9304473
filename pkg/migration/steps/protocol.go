// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	// Protocol is the version of what the agents of two seeds say to each other: conditions and their reasons, the
	// annotations that they act on, and what the destination finds in the ShootState and behind the source's relay. A
	// release that changes any of it raises Protocol by one. A test keeps what there is to say for each version.
	Protocol = 3
	// OldestProtocol is the oldest version that agents of this release also speak: at least that of the release before,
	// so that two adjacent releases work together in one migration. (There is none before the first.)
	OldestProtocol = 1
	// ProtocolAhead is the oldest version in which the source may ask the destination to prepare before its own first
	// step (AskedAhead), and in which the destination withdraws from that in an abort. A destination that does not
	// speak it is not asked: it would say nothing, and an abort would wait for it.
	ProtocolAhead = 2
	// ProtocolWithGap is the oldest version in which the agents move etcds with one member each, as AnnotationWithGap
	// asks for. Others take a Shoot with it for one that asks for nothing.
	ProtocolWithGap = 3

	// SeedAnnotationProtocols on a Seed tells which versions of Protocol its agent speaks: "2", or "1-2". The agent
	// publishes it, because releases differ in it that are built with the same version of Gardener.
	SeedAnnotationProtocols = "livecpm.gardener.cloud/agent-protocols"
)

// Protocols are the versions of Protocol that an agent speaks. The zero value is none.
type Protocols struct {
	// Oldest and Newest are the first and the last of them.
	Oldest, Newest int
}

// OwnProtocols returns what agents of this release speak.
func OwnProtocols() Protocols { return Protocols{Oldest: OldestProtocol, Newest: Protocol} }

// ParseProtocols reads what String has written.
func ParseProtocols(text string) (Protocols, error) {
	first, last, several := strings.Cut(text, "-")
	if !several {
		last = first
	}
	var out Protocols
	for _, part := range []struct {
		text string
		to   *int
	}{{first, &out.Oldest}, {last, &out.Newest}} {
		number, err := strconv.Atoi(part.text)
		if err != nil || number < 1 {
			return Protocols{}, fmt.Errorf("%q names no versions of the agents' protocol, as in 2 or 1-2", text)
		}
		*part.to = number
	}
	if out.Oldest > out.Newest {
		return Protocols{}, fmt.Errorf("%q names no versions of the agents' protocol: the first is later than the last",
			text)
	}
	return out, nil
}

// String returns the versions as the annotation has them.
func (p Protocols) String() string {
	if p.Oldest == p.Newest {
		return strconv.Itoa(p.Newest)
	}
	return fmt.Sprintf("%d-%d", p.Oldest, p.Newest)
}

// Common returns the newest version that both speak, which is the one that counts, or false if there is none.
func (p Protocols) Common(other Protocols) (int, bool) {
	newest := min(p.Newest, other.Newest)
	return newest, newest > 0 && newest >= max(p.Oldest, other.Oldest)
}
