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
