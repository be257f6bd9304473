// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package process

// ParseStartTime lets tests read process states that cannot be brought about.
var ParseStartTime = parseStartTime
