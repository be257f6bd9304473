// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// checkAgentProtocol asks for a version of the agents' protocol that both agents speak: what this one is built with,
// and what the other one has published on its Seed. An agent that is upgraded in the middle of a migration publishes
// anew, so it is asked before every step.
func checkAgentProtocol(f Facts) Finding {
	common, problem := commonProtocol(f)
	if problem != nil {
		return *problem
	}
	return pass(steps.AgentProtocol, "the agents of both seeds speak version %d of the protocol", common)
}

// commonProtocol returns the version of the protocol that counts, or what speaks against the agents' working together.
func commonProtocol(f Facts) (int, *Finding) {
	peer := f.Destination
	if f.ownRole() != steps.Source {
		peer = f.Source
	}
	const remedy = "bring the agents of both seeds to the same release (chart livecpm-agent); the check runs again " +
		"by itself"
	value, published := peer.Seed.Annotations[steps.SeedAnnotationProtocols]
	if !published {
		return 0, new(unknown(steps.AgentProtocol, remedyPublish, "the agent of seed %s has not published what it "+
			"speaks (its annotation %s is missing)", peer.Name, steps.SeedAnnotationProtocols))
	}
	theirs, err := steps.ParseProtocols(value)
	if err != nil {
		return 0, new(unknown(steps.AgentProtocol, remedy, "what the agent of seed %s speaks could not be read from "+
			"its annotation %s: %v", peer.Name, steps.SeedAnnotationProtocols, err))
	}
	common, ok := f.Protocols.Common(theirs)
	if !ok {
		return 0, new(fail(steps.AgentProtocol, remedy, "the agent of seed %s speaks version %s of the protocol, that "+
			"of seed %s version %s: their releases are not adjacent", f.OwnSeed, f.Protocols, peer.Name, theirs))
	}
	return common, nil
}
