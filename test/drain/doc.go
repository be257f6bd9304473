// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package drain has what tests of the drain of a seed have in common, and what the one on the landscape needs: its
// shoots, their load, and a look at the budget from outside.
package drain
