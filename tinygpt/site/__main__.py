import sys

from tinygpt.site.build import main

main(sys.argv[1:])
