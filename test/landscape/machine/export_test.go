// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package machine

// OwnCgroup lets tests read lines that their own machine does not have.
var OwnCgroup = ownCgroup
