// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package metrics

// ResetGate removes what the watchdog of the gate has recorded.
func ResetGate() {
	gateInForce.Reset()
	gateProofs.Reset()
	gateObjectIntact.Reset()
	gateRestorations.Reset()
}

// ResetDrain removes what the drains have recorded.
func ResetDrain() {
	drainShoots.Reset()
	drainCircuitOpen.Reset()
	drainStarts.Reset()
	drainResults.Reset()
}

// StepBounds are the bounds of the buckets for steps.
var StepBounds = stepBounds
