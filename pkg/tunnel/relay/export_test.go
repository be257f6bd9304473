// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package relay

// VerifyAgain verifies the certificate behind a resumed session.
var VerifyAgain = verifyAgain
