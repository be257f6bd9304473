// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package hollow

import "net/netip"

// NodeAddress returns the address in the nodes' range, a /16, whose last two octets are those of the pod's address. Pods of one cluster
// that are in one /16 get different ones.
func NodeAddress(nodes netip.Prefix, pod netip.Addr) netip.Addr {
	base, own := nodes.Masked().Addr().As4(), pod.As4()
	return netip.AddrFrom4([4]byte{base[0], base[1], own[2], own[3]})
}
