// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package driver

// Scheme is what the clients of Connect can read and write.
var Scheme = scheme
