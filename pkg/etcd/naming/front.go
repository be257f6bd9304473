// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package naming

// FrontName returns the name of the objects of an etcd's front in the shoot's namespace of the destination. The
// kube-apiservers there reach etcd through it during a migration (package front).
func FrontName(etcdRole string) string { return "livecpm-front-" + etcdRole }

// FrontOrdinalOfSource is the ordinal by which a front knows the only member of the source, which it reaches through
// the relay. No member of the destination has it.
const FrontOrdinalOfSource = MembersPerSeed
