#ps1_sysnative
# User-data for Windows with cloudbase-init, which has an EC2 metadata service in its
# list (cloudbaseinit.metadata.services.ec2service.EC2Service) and its user-data plugin on.
# The machine's profile needs --http-tokens optional where that version sends no token.
# Status 1001 would ask for a reboot after which this does not run again.
$ErrorActionPreference = 'Stop'

$metadata = 'http://169.254.169.254/latest/meta-data'
$name = Invoke-RestMethod -UseBasicParsing "$metadata/local-hostname"
Set-Content -Path 'C:\made-by-seedbed.txt' -Value $name

Set-ItemProperty -Path 'HKLM:\System\CurrentControlSet\Control\Terminal Server' -Name fDenyTSConnections -Value 0
Enable-NetFirewallRule -DisplayGroup 'Remote Desktop'
exit 0
