// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package outlook

// FreeMemory lets tests read other machines.
var FreeMemory = freeMemory
