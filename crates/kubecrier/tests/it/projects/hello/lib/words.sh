greeting="Good morning,"
